"""A unit is woken by whatever its observation reads.

Each scene is a unit with the objects around it. The test changes every member of every object. If
the unit's writes or its status differ after a change, the change must have enqueued the unit.
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import attrs
import pytest

from gpuruntime.kube.client import Client
from gpuruntime.meter import NullMeter
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.reasons import UnitReason
from gpuruntime.models.kinds.units import GPUUnit, GPUUnitStatus
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.children.drift import Child, body_of, patch_towards
from gpuruntime.reconcilers.children.keeper import ChildKeeper
from gpuruntime.reconcilers.functions.worker_secret_plan import function_declared_by
from gpuruntime.reconcilers.storage.holders import StorageHolders
from gpuruntime.reconcilers.storage.writes import StorageWrites
from gpuruntime.reconcilers.triggers import Triggers
from gpuruntime.reconcilers.unit.act import ChildKeepers
from gpuruntime.reconcilers.unit.intents import (
    Intent,
    KeepDeployment,
    KeepPolicy,
    KeepSecret,
    KeepService,
    Written,
)
from gpuruntime.reconcilers.unit.observation import UnitObserver
from gpuruntime.reconcilers.unit.observed import Observed
from gpuruntime.reconcilers.unit.plan import conclude, decide
from gpuruntime.reconcilers.unit.reads import READS, SURROUNDINGS
from gpuruntime.reconcilers.unit.start_locks import StartLocks
from gpuruntime.reconcilers.unit.status import status_of
from tests.rooms.operations.cluster import STOCK, SYSTEM
from tests.rooms.reconcilers.every_member import Change, Effects, asleep, changes_of
from tests.rooms.reconcilers.filled_caches import FilledCaches, by_cache, drained
from tests.rooms.reconcilers.unit.scenes import NOW, OPTIONS, PORTS, SCENES, children, unit
from tests.rooms.reconcilers.world import SETTLED

pytestmark = pytest.mark.looptime


class Scene:
    """A unit with the objects around it in the caches of a leader."""

    def __init__(self, observed: GPUUnit, *objects: Any) -> None:
        self._key = observed.metadata.key
        filled = FilledCaches(options=OPTIONS, now=NOW)
        self._triggers = Triggers(
            filled.informers, filled.leadership, stock_namespace=STOCK, meter=NullMeter()
        )
        filled.lead((observed, *objects))
        self.put, self.remove, self.reads = filled.put, filled.remove, filled.reads
        self._observer = observer_of(filled.client, filled.noted)

    async def woken(self) -> set[Key]:
        """Return the units that were enqueued since the last call."""
        return await drained(self._triggers.units, self._triggers.stock)

    async def effects(self) -> Effects | None:
        seen = await self._observer.observe(self._key)
        return effects_of(seen) if seen is not None else None

    async def settle(self, observed: GPUUnit) -> GPUUnit:
        """Give the unit the status that follows from the scene, and return it."""
        seen = await self._observer.observe(self._key)
        assert seen is not None
        reported = attrs.evolve(observed, status=conclusion(seen)[0])
        self.put(reported)
        await self.woken()
        return reported


def observer_of(client: Client, caches: Caches) -> UnitObserver:
    starts, keep = StartLocks(), partial(ChildKeeper[Any], client=client)
    return UnitObserver(
        client=client,
        caches=caches,
        options=OPTIONS,
        keepers=ChildKeepers(
            deployments={
                name: keep(
                    cache=cache,
                    resource=DEPLOYMENTS,
                    reason=UnitReason.DEPLOYMENT_SYNC_FAILED,
                )
                for name, cache in caches.deployments.items()
            },
            services=keep(
                cache=caches.services, resource=SERVICES, reason=UnitReason.SERVICE_SYNC_FAILED
            ),
            policies=keep(
                cache=caches.policies,
                resource=NETWORK_POLICIES,
                reason=UnitReason.NETWORK_POLICY_SYNC_FAILED,
            ),
        ),
        tombstones=Tombstones(client, namespace=SYSTEM, retention_seconds=60.0, now=lambda: NOW),
        gateway_ready=lambda: None,
        holders=StorageHolders(
            client,
            caches,
            writes=StorageWrites(client=client, storages=caches.storages),
            starts=starts,
            term=lambda: SETTLED,
        ),
        starts=starts,
        term=lambda: SETTLED,
    )


def effects_of(seen: Observed) -> Effects:
    status, seconds = conclusion(seen)
    writes = tuple(written(each, seen) for each in decide(seen, OPTIONS).intents)
    return Effects((writes, status), seconds)


def conclusion(seen: Observed) -> tuple[GPUUnitStatus, float | None]:
    """Return the status that a reconcile reports, and when it looks again."""
    plan = decide(seen, OPTIONS)
    own = seen.own_deployment
    outcome = Written(deployment=own, secret_seconds=None)
    verdict, seconds = conclude(plan, outcome, seen, now=NOW)
    status = seen.unit.status
    if verdict is not None:
        status = status_of(
            seen.unit, verdict, deployment=own, pods=seen.pods, options=OPTIONS, now=NOW
        )
    return status, seconds


def written(intent: Intent, seen: Observed) -> object:
    match intent:
        case KeepDeployment(child):
            return patch(child, seen, DEPLOYMENTS, seen.deployment)
        case KeepService(child):
            return patch(child, seen, SERVICES, seen.service)
        case KeepPolicy(child):
            return patch(child, seen, NETWORK_POLICIES, seen.policy)
        case KeepSecret(template=template, is_serving=is_serving):
            declared = function_declared_by(template, seen.unit)
            limits = (declared.timeoutSeconds, declared.maxAttempts) if declared else None
            return (declared.requestID if declared else "", limits, is_serving)
        case _:
            return type(intent)


def patch(child: Child, seen: Observed, resource: Any, present: Any) -> object:
    if present is None:
        return "create"
    is_own = seen.owns(present)
    return json.dumps(patch_towards(child, body_of(resource, present))) if is_own else "refused"


def changes(of: Any, observed: GPUUnit) -> Iterator[Change]:
    """Yield what may happen to an object of the scene."""
    is_unit = isinstance(of, GPUUnit)
    is_own = is_unit and of.metadata.key == observed.metadata.key
    # Workers are deleted with their template, and with the unit its children are.
    is_deletable = not (is_own or (is_unit and observed.spec.is_function_worker))
    return changes_of(of, is_deletable=is_deletable, kept=(".status",) if is_own else ())


@pytest.mark.parametrize("objects", SCENES.values(), ids=SCENES)
async def test_no_change_that_matters_to_a_unit_leaves_it_asleep(objects: tuple[Any, ...]) -> None:
    scene = Scene(*objects)
    observed = await scene.settle(objects[0])
    missed, mattered = await asleep(
        scene,
        observed.metadata.key,
        by_cache(observed, *objects[1:]),
        lambda each: changes(each, observed),
    )
    assert missed == []
    assert mattered.total() > 3


async def test_every_cache_that_is_read_is_declared_and_every_declared_one_is_read() -> None:
    reads: set[str] = set()
    for objects in SCENES.values():
        scene = Scene(*objects)
        await scene.settle(objects[0])
        await scene.effects()
        reads |= scene.reads
    assert reads == {each.cache for each in READS} | set(SURROUNDINGS)


@pytest.mark.parametrize("name", ["a", "a" * 63], ids=["short", "cut"])
async def test_a_child_wakes_its_unit_whatever_its_labels_say(name: str) -> None:
    observed = unit(name, template=PORTS)
    deployed, *_ = children(observed)
    relabelled = attrs.evolve(deployed.metadata, labels={labels.UNIT: "other"})
    scene = Scene(observed, attrs.evolve(deployed, metadata=relabelled), unit("other"))
    await scene.woken()
    scene.put(attrs.evolve(deployed, metadata=attrs.evolve(relabelled, annotations={})))
    assert await scene.woken() == {observed.metadata.key}
