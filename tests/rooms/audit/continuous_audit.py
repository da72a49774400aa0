"""Audits an embedded server in the same step as each change, which no outside observer can do."""

import asyncio
from collections.abc import Callable
from typing import Any

from gpuruntime.audit.audit import suspicions
from gpuruntime.audit.breach import AUDITED, Breach
from gpuruntime.audit.first_seen import FirstSeen
from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.embedded.objects.selection import Selection
from gpuruntime.embedded.objects.versions import Change
from gpuruntime.embedded.objects.watches import Watch
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.tombstones import TOMBSTONE_APP
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.volumes import JOBS, VOLUME_CLAIMS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from tests.rooms.operations.cluster import INSTANCE, STOCK, SYSTEM


class EachChange(Watch):
    """Receives each change in the step that makes it."""

    def __init__(self, hear: Callable[[Change], None]) -> None:
        super().__init__(Selection(), 0)
        self._hear = hear

    def offer(self, change: Change) -> None:
        self._hear(change)


class ContinuousAudit:
    """Records each breach once; ages follow the loop's time."""

    def __init__(self, server: Server) -> None:
        self.looks = 0
        self.breaches: dict[Breach, None] = {}
        self._held: dict[str, dict[str, Any]] = {each.kind: {} for each in AUDITED}
        self._first_seen = FirstSeen()
        types = {each.kind: each.type for each in AUDITED}
        for kind in server.registry:
            if kind.kind in types:
                self._follow(server, kind, types[kind.kind])

    def look(self) -> list[Breach]:
        self.looks += 1
        now = asyncio.get_running_loop().time()
        found = self._first_seen.breaches(suspicions(self.snapshot()), now)
        self.breaches.update(dict.fromkeys(found))
        return found

    def snapshot(self) -> Snapshot:
        return Snapshot(
            stock=self._in(GPU_UNITS.kind, STOCK),
            units=self._in(GPU_UNITS.kind, INSTANCE),
            pools=self._in(STOCK_POOLS.kind, STOCK),
            deployments=self._in(DEPLOYMENTS.kind, STOCK, INSTANCE),
            storages=self._in(GPU_STORAGES.kind, INSTANCE),
            services=self._in(SERVICES.kind, INSTANCE),
            policies=self._in(NETWORK_POLICIES.kind, INSTANCE),
            claims=self._in(VOLUME_CLAIMS.kind, INSTANCE),
            jobs=self._in(JOBS.kind, INSTANCE),
            pods=self._in(PODS.kind, STOCK, INSTANCE),
            tombstones=tuple(
                each
                for each in self._in(CONFIG_MAPS.kind, SYSTEM)
                if each.metadata.labels.get(labels.APP_NAME) == TOMBSTONE_APP
            ),
        )

    def assert_clean(self) -> None:
        told = [f"{each.rule}: {each.message}" for each in (*self.breaches, *self.look())]
        assert not told, told

    def _in(self, kind: str, *namespaces: str) -> Any:
        held = self._held[kind].values()
        return tuple(each for each in held if each.metadata.namespace in namespaces)

    def _follow(self, server: Server, kind: Any, model: type) -> None:
        held = self._held[kind.kind]

        def hear(change: Change) -> None:
            if change.after is None:
                held.pop(change.path, None)
            else:
                held[change.path] = codec.decode(change.after.body, model)
            self.look()

        collection = server.store.collection(kind)
        for stored in collection.present():
            held[stored.path] = codec.decode(stored.body, model)
        collection.watches.add(EachChange(hear))
