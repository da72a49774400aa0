"""A unit is woken by whatever its observation reads.

Each scene is a unit with the objects around it. The test changes every member of every object. If
the unit's writes or its status differ after a change, the change must have enqueued the unit.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, Final

import attrs
import msgspec
import pytest

from gpuruntime.concurrency.leadership import Leadership
from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import Request, Response, StreamResponse
from gpuruntime.meter import NullMeter
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonValue
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.reasons import UnitReason
from gpuruntime.models.kinds.storages import GPUStorage
from gpuruntime.models.kinds.units import (
    GPU_UNITS,
    GPUUnit,
    GPUUnitStatus,
)
from gpuruntime.models.kubernetes.cluster import PriorityClass
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES, NetworkPolicy, Service
from gpuruntime.models.kubernetes.pods import (
    PODS,
    Pod,
)
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS, Deployment
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.operations.tombstones import Tombstones
from gpuruntime.reconcilers.caches import Caches
from gpuruntime.reconcilers.children.drift import Child, body_of, patch_towards
from gpuruntime.reconcilers.children.keeper import ChildKeeper
from gpuruntime.reconcilers.functions.worker_secret_plan import function_declared_by
from gpuruntime.reconcilers.informers import Informers, ReconcilerContext
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
from tests.rooms.operations.cluster import INSTANCE, STOCK, SYSTEM
from tests.rooms.reconcilers.noted_cache import NotedCache
from tests.rooms.reconcilers.unit.scenes import NOW, OPTIONS, PORTS, SCENES, children, unit
from tests.rooms.reconcilers.world import SETTLED

pytestmark = pytest.mark.looptime

PHASES: Final = ("Pending", "Running", "Succeeded", "Failed")
# An object keeps these for its life.
FIXED: Final = frozenset(
    {"name", "generateName", "namespace", "uid", "resourceVersion", "creationTimestamp"}
)


class CachesAsServer:
    """An API server that has what the caches have, for live reads of units and Pods."""

    caches: Caches

    async def request(self, request: Request) -> Response:
        *_, namespace, plural, name = ("", *request.path.split("/"))
        if name == PODS.plural:
            unit = dict(request.query)["labelSelector"].partition("=")[2]
            pods = [
                codec.to_json(each)
                for each in self.caches.pods[plural].store.values()
                if each.metadata.labels.get(labels.UNIT) == unit
            ]
            return _answer(200, kind="PodList", metadata={"resourceVersion": "1"}, items=pods)
        resource = DEPLOYMENTS if plural == DEPLOYMENTS.plural else GPU_UNITS
        found = self._find(plural, Key(namespace, name))
        if found is None:
            return _answer(404, kind="Status", reason="NotFound")
        return _answer(200, kind=resource.kind, **codec.to_json(found))

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamResponse]:
        raise NotImplementedError(request.path)

    def _find(self, plural: str, key: Key) -> Any:
        units = self.caches.stock if key.namespace == STOCK else self.caches.units
        caches: dict[str, Cache[Any]] = {
            GPU_UNITS.plural: units,
            DEPLOYMENTS.plural: self.caches.deployments[INSTANCE],
        }
        return caches[plural].store.get(key) if plural in caches else None


def _answer(code: int, /, **members: JsonValue) -> Response:
    return Response(status=code, body=codec.encode(members))


class Scene:
    """A leader whose caches hold the objects; nothing runs."""

    def __init__(self, *objects: Any) -> None:
        self.reads: set[str] = set()
        self._versions = iter(range(1, 1_000_000))
        server = CachesAsServer()
        client = Client(server)
        context = ReconcilerContext(
            client=client,
            options=OPTIONS,
            retention_seconds=60.0,
            term=lambda: SETTLED,
            now=lambda: NOW,
            rng=Random(3),
            meter=NullMeter(),
        )
        self._informers = Informers(context)
        server.caches = self._informers.caches()
        leadership = Leadership()
        self._triggers = Triggers(
            self._informers, leadership, stock_namespace=STOCK, meter=NullMeter()
        )
        for each in objects:
            self.put(each)
        leadership.begin()
        self._observer = self._make_observer(client, self._noting(server.caches))

    def put(self, value: Any) -> None:
        metadata = attrs.evolve(value.metadata, resourceVersion=str(next(self._versions)))
        assert self._informer(value).write_through(attrs.evolve(value, metadata=metadata))

    def remove(self, value: Any) -> None:
        self._informer(value)._writer._remove(value.metadata.key, next(self._versions))

    async def woken(self) -> set[Key]:
        """Return the units that were enqueued since the last call."""
        found = set()
        for queue in (self._triggers.units, self._triggers.stock):
            while queue.depth:
                key = await queue.get()
                queue.done(key)
                found.add(key)
        return found

    async def observe(self, key: Key) -> Observed | None:
        return await self._observer.observe(key)

    def _noting(self, caches: Caches) -> Caches:
        noted: dict[str, Any] = {}
        for field in attrs.fields(Caches):
            cache = getattr(caches, field.name)
            noted[field.name] = (
                {name: NotedCache(each, field.name, self.reads) for name, each in cache.items()}
                if isinstance(cache, dict)
                else NotedCache(cache, field.name, self.reads)
            )
        return Caches(**noted)

    def _make_observer(self, client: Client, caches: Caches) -> UnitObserver:
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
                    cache=caches.services,
                    resource=SERVICES,
                    reason=UnitReason.SERVICE_SYNC_FAILED,
                ),
                policies=keep(
                    cache=caches.policies,
                    resource=NETWORK_POLICIES,
                    reason=UnitReason.NETWORK_POLICY_SYNC_FAILED,
                ),
            ),
            tombstones=Tombstones(
                client, namespace=SYSTEM, retention_seconds=60.0, now=lambda: NOW
            ),
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

    def _informer(self, value: Any) -> Informer[Any]:
        informers, namespace = self._informers, value.metadata.namespace
        by_type: dict[type, Informer[Any]] = {
            GPUUnit: informers.stock if namespace == STOCK else informers.units,
            GPUStorage: informers.storages,
            Deployment: informers.deployments.get(namespace, informers.deployments[INSTANCE]),
            Pod: informers.pods.get(namespace, informers.pods[INSTANCE]),
            Service: informers.services,
            NetworkPolicy: informers.policies,
            PriorityClass: informers.priorities,
        }
        return by_type[type(value)]


def effects(seen: Observed) -> tuple[tuple[object, ...], GPUUnitStatus, float | None]:
    """Return what a reconcile writes, the status that it reports, and when it looks again."""
    plan = decide(seen, OPTIONS)
    own = seen.own_deployment
    outcome = Written(deployment=own, secret_seconds=None)
    verdict, seconds = conclude(plan, outcome, seen, now=NOW)
    status = seen.unit.status
    if verdict is not None:
        status = status_of(
            seen.unit, verdict, deployment=own, pods=seen.pods, options=OPTIONS, now=NOW
        )
    return tuple(written(each, seen) for each in plan.intents), status, seconds


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
            fewer = ({k: v for k, v in value.items() if k != name} for name in value)
            return ({**value, "added": "x"}, *fewer)
        case msgspec.Raw():
            return (msgspec.Raw(b'{"replicas":7,"type":"NodePort","policyTypes":[]}'),)
        case _:
            return (NOW,) if name == "deletionTimestamp" else ()


def changes(of: Any, observed: GPUUnit) -> Iterator[tuple[str, Any]]:
    """Yield what may happen to an object of the scene, with the object then; None if deleted."""
    name = f"{type(of).__name__} {of.metadata.name}"
    is_own_unit = of.metadata.key == observed.metadata.key and isinstance(of, GPUUnit)
    is_template = observed.spec.is_function_worker and isinstance(of, GPUUnit)
    # Workers are deleted with their template, and with the unit its children are.
    if not (is_template or is_own_unit):
        yield f"{name} deleted", None
    for path, changed in variants(of, name):
        member = path.removeprefix(name)
        is_our_status = isinstance(of, GPUUnit) and member.startswith(".status") and is_own_unit
        is_bound = member.startswith(".spec.nodeName")
        if is_our_status or is_bound or member.startswith(".metadata.generation"):
            continue
        metadata = changed.metadata
        if member.startswith(".spec") and isinstance(of, GPUUnit | Deployment):
            metadata = attrs.evolve(metadata, generation=metadata.generation + 1)
        yield path, attrs.evolve(changed, metadata=metadata)


async def settled(objects: Iterable[Any]) -> tuple[Scene, GPUUnit]:
    """Return the scene once the unit has the status that follows from it."""
    observed, *others = objects
    scene = Scene(observed, *others)
    seen = await scene.observe(observed.metadata.key)
    assert seen is not None
    reported = attrs.evolve(observed, status=effects(seen)[1])
    scene.put(reported)
    await scene.woken()
    return scene, reported


@pytest.mark.parametrize("objects", SCENES.values(), ids=SCENES)
async def test_no_change_that_matters_to_a_unit_leaves_it_asleep(objects: tuple[Any, ...]) -> None:
    scene, observed = await settled(objects)
    key = observed.metadata.key
    before = await scene.observe(key)
    assert before is not None
    expected, missed, mattered = effects(before), [], 0
    for each in (observed, *objects[1:]):
        for what, changed in changes(each, observed):
            if changed is None:
                scene.remove(each)
            else:
                scene.put(changed)
            is_woken = key in await scene.woken()
            after = await scene.observe(key)
            matters = after is not None and effects(after) != expected
            mattered += matters
            if matters and not is_woken and expected[2] is None:
                missed.append(what)
            scene.put(each)
            await scene.woken()
    assert missed == []
    assert mattered > 3


async def test_every_cache_that_is_read_is_declared_and_every_declared_one_is_read() -> None:
    reads: set[str] = set()
    for objects in SCENES.values():
        scene, observed = await settled(objects)
        await scene.observe(observed.metadata.key)
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
