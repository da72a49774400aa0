"""Changes of every member of every object that an observation reads, one at a time.

If a reconcile then writes or reports something else, the change must have enqueued the key.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, TypeAlias

import attrs
import msgspec

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import StockPool
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.workloads import Deployment

PHASES: Final = ("Pending", "Running", "Succeeded", "Failed")
# A moment for members that have none.
MOMENT: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
# All labels and annotations of ours.
OURS: Final = tuple(
    each
    for each in vars(labels).values()
    if isinstance(each, str) and each.startswith(f"{labels.GROUP}/")
)
# An object keeps these for its life.
FIXED: Final = frozenset(
    {"name", "generateName", "namespace", "uid", "resourceVersion", "creationTimestamp"}
)
# A change of their specs is counted in their generations.
COUNTED: Final = (GPUUnit, GPUStorage, StockPool, Deployment)
# The name of a change, and the object after it; None if it is deleted.
Change: TypeAlias = tuple[str, Any]


@attrs.frozen(slots=True)
class Effects:
    """Everything that a reconcile writes and reports, and when the next one comes by itself."""

    done: object
    again_seconds: float | None


class Scene(Protocol):
    """Objects in the caches of a leader, and the reconciler of one of them."""

    def put(self, value: Any) -> None: ...

    def remove(self, value: Any) -> None: ...

    async def woken(self) -> Collection[Hashable]:
        """Return the keys that were enqueued since the last call."""
        ...

    async def effects(self) -> Effects | None:
        """Return the effects of a reconcile, or None if its object is gone."""
        ...


async def asleep(
    scene: Scene,
    key: Hashable,
    objects: Iterable[tuple[str, Any]],
    changes: Callable[[Any], Iterable[Change]],
) -> tuple[list[str], Counter[str]]:
    """Return the changes that matter and leave the key asleep, and how many matter by source.

    A key with a time to look again may sleep until then.
    """
    before, missed, mattered = await scene.effects(), [], Counter[str]()
    assert before is not None
    for source, each in objects:
        for what, changed in changes(each):
            if changed is None:
                scene.remove(each)
            else:
                scene.put(changed)
            is_woken = key in await scene.woken()
            after = await scene.effects()
            if after is not None and after != before:
                mattered[source] += 1
                if not is_woken and before.again_seconds is None:
                    missed.append(what)
            scene.put(each)
            await scene.woken()
    return missed, mattered


def changes_of(
    value: Any, *, is_deletable: bool = True, kept: tuple[str, ...] = ()
) -> Iterator[Change]:
    """Yield what a client or a controller may do to the object, except to the members `kept`."""
    name = f"{type(value).__name__} {value.metadata.name}"
    if is_deletable:
        yield f"{name} deleted", None
    for path, changed in variants(value, name):
        member = path.removeprefix(name)
        # A Pod keeps its node, and the server counts generations.
        if member.startswith((".spec.nodeName", ".metadata.generation", *kept)):
            continue
        metadata = changed.metadata
        if member.startswith(".spec") and isinstance(value, COUNTED):
            metadata = attrs.evolve(metadata, generation=metadata.generation + 1)
        yield path, attrs.evolve(changed, metadata=metadata)


def variants(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the value with one member changed, for every member that may change, by its path."""
    if isinstance(value, tuple):
        for number, each in enumerate(value):
            yield f"{path}[{number}] removed", (*value[:number], *value[number + 1 :])
            for what, other in variants(each, f"{path}[{number}]"):
                yield what, (*value[:number], other, *value[number + 1 :])
    elif attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            if field.name not in FIXED or not isinstance(value, ObjectMeta):
                member = getattr(value, field.name)
                for what, other in variants(member, f"{path}.{field.name}"):
                    yield what, attrs.evolve(value, **{field.name: other})
    else:
        for other in others(value, path.rpartition(".")[2]):
            yield f"{path}={other}", other


def others(value: Any, name: str) -> Iterable[Any]:
    """Return other values of a plain member."""
    match value:
        case bool():
            return (not value,)
        case int():
            return (value + 1,)
        case str():
            known = {"phase": PHASES, "status": ("True", "False")}.get(name, (f"{value}x", ""))
            return (each for each in known if each != value)
        case datetime():
            return (value + timedelta(minutes=59, seconds=30),)
        case dict():
            fewer = [{k: v for k, v in value.items() if k != each} for each in value]
            marks = OURS if name in ("annotations", "labels") else ()
            given = [{**value, each: f"{value.get(each, '')}x"} for each in ("added", *marks)]
            return (*given, *fewer)
        case msgspec.Raw():
            return (msgspec.Raw(b'{"replicas":7,"type":"NodePort","policyTypes":[]}'),)
        case _:
            return (MOMENT,) if name == "deletionTimestamp" or name.endswith("At") else ()
