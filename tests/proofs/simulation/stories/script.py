"""The stories of a run, derived from its seed before it begins: what callers and operators do.

Each story proceeds step by step, whatever fails meanwhile, so that it has the same result in every
run.
"""

from enum import StrEnum
from random import Random
from typing import Any, Final

import attrs

from gpuruntime.operations.hashing import derived_name
from tests.proofs.simulation.stories.children_script import (
    EditedStory,
    RemadeStory,
    edited,
    remade,
)
from tests.proofs.simulation.stories.function_script import (
    FUNCTION_SPEC,
    FunctionStory,
    functions_of,
)

SCARCE: Final = "scarce"
RUSH: Final = "rush"
# The number of different scripts. All runs of a script, under different faults, are compared with
# one undisturbed run.
SCRIPTS: Final = 50
# The image of a pool whose template makes its stock crash.
BROKEN: Final = "broken:1"
IMAGES: Final = ("python:3.12", "python:3.13", "trainer:1")
ENVELOPES: Final[dict[str, dict[str, Any]]] = {
    "ample": {"memory": "16Gi", "cpu": "2", "gpu": 1},
    "warm": {"memory": "8Gi", "gpu": 1},
    SCARCE: {"memory": "4Gi", "cpu": "500m", "gpu": 1},
    "doomed": {"memory": "2Gi", "gpu": 1},
    RUSH: {"memory": "1Gi"},
    FUNCTION_SPEC: {"memory": "1Gi", "cpu": "500m"},
}


class Step(StrEnum):
    """A step in the story of an existing unit."""

    REPLAY = "replay"
    REPLAY_TO_BOTH = "replay to both"
    OTHER_BODY = "other body"
    WAIT = "wait until it is ready"
    IMAGE = "change the image"
    PORTS = "open a port"
    NO_PORTS = "close the ports"
    SUSPEND = "suspend"
    RESUME = "resume"
    DROP_DEPLOYMENT = "delete the Deployment with kubectl"
    CRASH = "an image that crashes"
    DELETE = "delete"
    LATE_REPLAY = "late replay"
    DELETE_WITH_KUBECTL = "delete the unit with kubectl"


@attrs.frozen(kw_only=True, slots=True)
class UnitStory:
    """The story of a unit. An empty `name` is derived from the operation.

    If `is_doubled`, the request is sent to both replicas at once.
    """

    begins_at: float
    operation: str
    spec_name: str
    name: str
    image: str
    is_doubled: bool
    steps: tuple[Step, ...]

    @property
    def unit_name(self) -> str:
        return self.name or derived_name(self.operation)

    @property
    def body(self) -> dict[str, Any]:
        chosen = {"name": self.name} if self.name else {}
        return {
            "operationID": self.operation,
            "specName": self.spec_name,
            "image": self.image,
            **chosen,
        }


@attrs.frozen(kw_only=True, slots=True)
class ContestStory:
    """Two bodies with one operation, sent to both replicas with a pause of `gap` seconds."""

    begins_at: float
    operation: str
    names: tuple[str, str]
    gap: float


@attrs.frozen(kw_only=True, slots=True)
class SeedStory:
    """Stock that is seeded once; if `is_doubled`, the request is sent to both replicas at once."""

    begins_at: float
    operation: str
    spec_name: str
    replicas: int
    is_doubled: bool


@attrs.frozen(kw_only=True, slots=True)
class PoolStory:
    """A refilled pool that is resized to each of `sizes`, and then kept or deleted.

    With each size it gets the image of that place; stock with the image BROKEN cannot start.
    """

    begins_at: float
    operation: str
    name: str
    spec_name: str
    sizes: tuple[int, ...]
    images: tuple[str, ...]
    pause: float
    is_deleted: bool


@attrs.frozen(kw_only=True, slots=True)
class DirectStory:
    """A unit created with kubectl and without a claim; a bad spec is corrected later."""

    begins_at: float
    name: str
    is_bad: bool
    is_deleted: bool


@attrs.frozen(kw_only=True, slots=True)
class ShrinkingPoolStory:
    """A pool of one unit that is used up, grows, and shrinks while its stock is requested."""

    begins_at: float
    replicas: int
    pauses: tuple[float, ...]

    name = "rush-pool"

    @property
    def units(self) -> tuple[str, ...]:
        """Return the names of the units; the first one uses up the original pool."""
        return tuple(f"rush-{number}" for number in range(1 + len(self.pauses)))


@attrs.frozen(kw_only=True, slots=True)
class NamesakesStory:
    """Two operations that request a unit of the same name at both replicas."""

    begins_at: float
    name: str
    gap: float

    @property
    def operations(self) -> tuple[str, str]:
        return f"{self.name}-a", f"{self.name}-b"


@attrs.frozen(kw_only=True, slots=True)
class RestoredStory:
    """A unit created with kubectl that names unclaimed stock."""

    begins_at: float
    name: str


@attrs.frozen(kw_only=True, slots=True)
class ResumedStory:
    """A suspended unit, created with kubectl, that fits on no node when it is resumed."""

    begins_at: float
    name: str


@attrs.frozen(kw_only=True, slots=True)
class SecretStory:
    """A unit, created with kubectl, and the secret of the same name that it uses."""

    begins_at: float
    name: str


@attrs.frozen(kw_only=True, slots=True)
class LateNodeStory:
    """A unit, created with kubectl, that waits for a node and then never becomes ready."""

    begins_at: float
    name: str


class Release(StrEnum):
    """How the first unit that mounts a storage releases it."""

    DELETED = "deleted"
    UNMOUNTED = "no longer mounts it"
    UNMOUNTED_WHILE_SUSPENDED = "is suspended, and no longer mounts it"


@attrs.frozen(kw_only=True, slots=True)
class StorageStory:
    """A storage and two units that mount it one after the other.

    If it `fails`, its first prepare fails. If `is_replaced`, the first unit is deleted and another
    one with its name is created at once. If it `loses_claim`, its volume claim is deleted in the
    end.
    """

    begins_at: float
    operation: str
    name: str
    is_prepared: bool
    fails: bool
    has_accessor: bool
    is_suspended: bool
    # The second unit is already running when it mounts the storage.
    mounts_later: bool
    release: Release
    is_replaced: bool
    loses_claim: bool
    is_deleted: bool

    @property
    def users(self) -> tuple[str, str]:
        return f"{self.name}-first", f"{self.name}-second"


class StorageChange(StrEnum):
    """A change of a storage with kubectl."""

    JOB_REMOVED = "its prepare Job is deleted"
    DELETED_WHILE_MOUNTED = "it is deleted while a unit mounts it"
    CLAIM_REMOVED = "its volume claim is deleted"


@attrs.frozen(kw_only=True, slots=True)
class StorageChangeStory:
    """A storage that three units mount in turn; if `is_recreated`, another gets its name."""

    begins_at: float
    operation: str
    name: str
    change: StorageChange
    is_recreated: bool


@attrs.frozen(kw_only=True, slots=True)
class Script:
    units: tuple[UnitStory, ...]
    contests: tuple[ContestStory, ...]
    seeds: tuple[SeedStory, ...]
    pools: tuple[PoolStory, ...]
    direct: tuple[DirectStory, ...]
    storages: tuple[StorageStory, ...]
    shrinking_pools: tuple[ShrinkingPoolStory, ...]
    namesakes: tuple[NamesakesStory, ...]
    restored: tuple[RestoredStory, ...]
    resumed: tuple[ResumedStory, ...]
    late_nodes: tuple[LateNodeStory, ...]
    edited: tuple[EditedStory, ...]
    remade: tuple[RemadeStory, ...]
    storage_changes: tuple[StorageChangeStory, ...]
    functions: tuple[FunctionStory, ...]
    secrets: tuple[SecretStory, ...]


FIRST_SECOND: Final = 16.0
LAST_SECOND: Final = 150.0


def script_of(seed: int) -> Script:
    number = seed % SCRIPTS
    rng, more = Random(f"{number} script"), Random(f"{number} more")
    ample = [_unit(rng, each, "ample") for each in range(rng.randint(1, 4))]
    warm = [_unit(rng, each, "warm") for each in range(rng.randint(0, 3))]
    scarce = [_unit(rng, each, SCARCE) for each in range(rng.randint(0, 4))]
    contests = [_contest(rng, each) for each in range(rng.choice((0, 0, 1, 2)))]
    ample += [_quickly_deleted(more)] if more.random() < 0.4 else []
    shrinking_pools = [_shrinking_pool(more)] if more.random() < 0.4 else []
    namesakes = [_namesakes(more)] if more.random() < 0.4 else []
    restored = [_restored(more)] if more.random() < 0.4 else []
    storages = _storages(Random(f"{number} storages"))
    pairs = len(contests) + len(namesakes)
    needed = len(ample) + 2 * pairs + len(restored) + sum(map(_units_of, storages))
    seeds = [_seed(rng, "ample", needed + rng.randint(0, 2))]
    if scarce:
        seeds.append(_seed(rng, SCARCE, rng.randint(1, len(scarce))))
    pools = [_pool(rng, "warm", is_deleted=False)] if warm or rng.random() < 0.5 else []
    if rng.random() < 0.5:
        pools.append(_pool(rng, "doomed", is_deleted=True))
    direct = [_direct(rng, each) for each in range(rng.randint(0, 2))]
    children = Random(f"{number} children")
    return Script(
        units=(*ample, *warm, *scarce),
        contests=tuple(contests),
        seeds=tuple(seeds),
        pools=tuple(pools),
        direct=tuple(direct),
        storages=storages,
        shrinking_pools=tuple(shrinking_pools),
        namesakes=tuple(namesakes),
        restored=tuple(restored),
        resumed=_resumed(Random(f"{number} resumed")),
        late_nodes=_late_nodes(Random(f"{number} late nodes")),
        edited=edited(children, _moment(children)),
        remade=remade(children, _moment(children)),
        storage_changes=_storage_changes(Random(f"{number} meddling")),
        functions=functions_of(Random(f"{number} functions"), earliest=FIRST_SECOND),
        secrets=_secrets(Random(f"{number} secrets")),
    )


def _quickly_deleted(rng: Random) -> UnitStory:
    """Return a unit that is deleted at once, or as soon as it is ready."""
    return UnitStory(
        begins_at=_moment(rng),
        operation="unit-hasty",
        spec_name="ample",
        name="hasty-unit",
        image=rng.choice(IMAGES),
        is_doubled=False,
        steps=(*rng.choice(((), (Step.WAIT,))), Step.DELETE, Step.LATE_REPLAY),
    )


def _shrinking_pool(rng: Random) -> ShrinkingPoolStory:
    replicas = rng.randint(3, 4)
    pauses = tuple(rng.uniform(0.0, 2.0) for _ in range(replicas - 1))
    return ShrinkingPoolStory(
        begins_at=rng.uniform(FIRST_SECOND, 100.0), replicas=replicas, pauses=pauses
    )


def _namesakes(rng: Random) -> NamesakesStory:
    return NamesakesStory(
        begins_at=_moment(rng), name="namesake", gap=rng.choice((0.0, 0.001, 0.01))
    )


def _restored(rng: Random) -> RestoredStory:
    return RestoredStory(begins_at=_moment(rng), name="restored")


def _resumed(rng: Random) -> tuple[ResumedStory, ...]:
    return (ResumedStory(begins_at=_moment(rng), name="resumed"),) if rng.random() < 0.4 else ()


def _late_nodes(rng: Random) -> tuple[LateNodeStory, ...]:
    return (LateNodeStory(begins_at=_moment(rng), name="late"),) if rng.random() < 0.4 else ()


def _secrets(rng: Random) -> tuple[SecretStory, ...]:
    begins_at = rng.uniform(FIRST_SECOND, FIRST_SECOND + 20.0)
    return (SecretStory(begins_at=begins_at, name="guarded"),) if rng.random() < 0.3 else ()


def _storages(rng: Random) -> tuple[StorageStory, ...]:
    return tuple(_storage(rng, number) for number in range(rng.choice((0, 1, 1, 1, 2))))


def _units_of(storage: StorageStory) -> int:
    return 2 + storage.is_replaced


def _storage(rng: Random, number: int) -> StorageStory:
    is_prepared = rng.random() < 0.7
    has_accessor = rng.random() < 0.4
    is_deleted = rng.random() < 0.3
    return StorageStory(
        begins_at=_moment(rng),
        operation=f"storage-{number}",
        name=f"volume-{number}",
        is_prepared=is_prepared,
        fails=is_prepared and rng.random() < 0.4,
        has_accessor=has_accessor,
        is_suspended=rng.random() < 0.5,
        mounts_later=rng.random() < 0.5,
        release=rng.choice(tuple(Release)),
        is_replaced=rng.random() < 0.4,
        loses_claim=not has_accessor and not is_deleted and rng.random() < 0.6,
        is_deleted=is_deleted,
    )


def _storage_changes(rng: Random) -> tuple[StorageChangeStory, ...]:
    return tuple(
        StorageChangeStory(
            begins_at=_moment(rng),
            operation=f"meddled-{number}",
            name=f"meddled-{number}",
            change=rng.choice(tuple(StorageChange)),
            is_recreated=rng.random() < 0.6,
        )
        for number in range(rng.choice((0, 1)))
    )


def _moment(rng: Random) -> float:
    return rng.uniform(FIRST_SECOND, LAST_SECOND)


def _unit(rng: Random, number: int, spec_name: str) -> UnitStory:
    return UnitStory(
        begins_at=_moment(rng),
        operation=f"unit-{spec_name}-{number}",
        spec_name=spec_name,
        name=rng.choice(("", f"{spec_name}-unit-{number}")),
        image=rng.choice(IMAGES),
        is_doubled=rng.random() < 0.4,
        steps=_steps(rng),
    )


def _steps(rng: Random) -> tuple[Step, ...]:
    replays = (Step.REPLAY, Step.REPLAY_TO_BOTH, Step.OTHER_BODY)
    changes = (
        (Step.IMAGE, Step.WAIT),
        (Step.PORTS, Step.WAIT),
        (Step.PORTS, Step.WAIT, Step.NO_PORTS, Step.WAIT),
        (Step.SUSPEND, Step.RESUME),
        (Step.SUSPEND, Step.REPLAY, Step.RESUME),
        (Step.DROP_DEPLOYMENT, Step.WAIT),
        (Step.CRASH, Step.IMAGE, Step.WAIT),
        (Step.IMAGE, Step.SUSPEND, Step.RESUME),
        (Step.REPLAY,),
    )
    ends = (
        (),
        (Step.WAIT,),
        (Step.DELETE,),
        (Step.DELETE, Step.LATE_REPLAY),
        (Step.WAIT, Step.DELETE, Step.LATE_REPLAY),
        (Step.WAIT, Step.DELETE_WITH_KUBECTL),
        (Step.SUSPEND,),
    )
    steps: list[Step] = [*rng.sample(replays, rng.randint(0, 2))]
    if rng.random() < 0.7:
        steps.append(Step.WAIT)
    for _ in range(rng.randint(0, 2)):
        steps.extend(rng.choice(changes))
    if rng.random() < 0.3:
        steps.append(rng.choice(replays))
    return (*steps, *rng.choice(ends))


def _contest(rng: Random, number: int) -> ContestStory:
    return ContestStory(
        begins_at=_moment(rng),
        operation=f"contest-{number}",
        names=(f"contest-{number}-a", f"contest-{number}-b"),
        gap=rng.choice((0.0, 0.001, 0.01, 0.1)),
    )


def _seed(rng: Random, spec_name: str, replicas: int) -> SeedStory:
    return SeedStory(
        begins_at=rng.uniform(FIRST_SECOND, FIRST_SECOND + 30.0),
        operation=f"seed-{spec_name}",
        spec_name=spec_name,
        replicas=replicas,
        is_doubled=rng.random() < 0.4,
    )


def _pool(rng: Random, spec_name: str, *, is_deleted: bool) -> PoolStory:
    begins_at = rng.uniform(FIRST_SECOND, FIRST_SECOND + 40.0)
    sizes = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 3)))
    pause = rng.uniform(0.0, 40.0)
    # The sizes once more, so that a change of the image alone happens, too.
    sizes = (*sizes, *sizes[-1:] * 2)
    changes = Random(f"{begins_at} images")
    images = [changes.choice((*IMAGES, BROKEN)) for _ in sizes[1:]]
    return PoolStory(
        begins_at=begins_at,
        operation=f"pool-{spec_name}",
        name=f"{spec_name}-pool",
        spec_name=spec_name,
        sizes=sizes,
        images=(*images, changes.choice(IMAGES)),
        pause=pause,
        is_deleted=is_deleted,
    )


def _direct(rng: Random, number: int) -> DirectStory:
    return DirectStory(
        begins_at=_moment(rng),
        name=f"direct-{number}",
        is_bad=rng.random() < 0.5,
        is_deleted=rng.random() < 0.3,
    )
