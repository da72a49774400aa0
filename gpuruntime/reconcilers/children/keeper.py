"""Keeper of children: it writes a child as desired, unless another owner has its name."""

from enum import StrEnum
from typing import Final, Generic, Protocol, TypeVar

import attrs
import structlog

from gpuruntime.concurrency.latest import Latest
from gpuruntime.errors import GpuRuntimeError
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.reconcilers.children.drift import (
    Child,
    HasSpec,
    body_of,
    drifting_parts,
    is_behind,
    patch_back,
    patch_towards,
)
from gpuruntime.reconcilers.children.refusals import is_owned_by, ownership_message

log = structlog.get_logger()

# The server rejects the content of the request, and will do so again until something changes.
REFUSALS = (BadRequestError, ForbiddenError, InvalidError)

# A child takes about 8 KB here, and the passes of one burst follow each other within seconds.
MOST_SETTLED: Final = 256


class HasConditions(Protocol):
    @property
    def conditions(self) -> tuple[Condition, ...]: ...


class Owner(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def status(self) -> HasConditions: ...


LiveT = TypeVar("LiveT", bound=HasSpec)


class ChildSyncError(GpuRuntimeError):
    """A child cannot be kept as desired; the message says why, for its owner's status."""

    def __init__(self, reason: StrEnum, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@attrs.frozen(kw_only=True, slots=True)
class ChildKeeper(Generic[LiveT]):
    """ChildKeeper keeps children of one kind. Its errors carry `reason` for the owner's status."""

    client: Client
    cache: Cache[LiveT]
    resource: Resource[LiveT]
    reason: StrEnum
    # Children that had no drift, with what they were judged by; most passes change neither.
    settled: Latest[Key, tuple[Child, object]] = attrs.field(
        factory=lambda: Latest(MOST_SETTLED), init=False
    )

    def owned(self, key: Key, owner: Owner) -> LiveT | None:
        live = self.cache.store.get(key)
        return live if live is not None and is_owned_by(live, owner) else None

    async def known(self, owner: Owner, key: Key) -> LiveT | None:
        """Return the child; read it live if the owner's status says that it was refused.

        The refusal may be due to a child of another owner, which the cache does not mirror.
        """
        live = self.cache.store.get(key)
        was_refused = any(each.reason == self.reason for each in owner.status.conditions)
        if live is not None or not was_refused:
            return live
        try:
            return await self.client.get(self.resource, key)
        except NotFoundError:
            return None

    async def keep(self, owner: Owner, key: Key, desired: Child) -> LiveT:
        """Create or patch the child if needed, and return it."""
        return await self.ensure(owner, key, desired, live=await self.known(owner, key))

    async def ensure(self, owner: Owner, key: Key, desired: Child, *, live: LiveT | None) -> LiveT:
        """Create the child if there is no live one, else remove its drift; return it.

        Raise ChildSyncError if the cluster rejects it, or another owner has its name.
        """
        # Drift is judged against the newest version: a patch of the observed one may conflict.
        live = self.cache.store.get(key) or live
        try:
            if live is None:
                return await self._create(owner, key, desired)
            return await self._update(owner, live, desired)
        except REFUSALS as error:
            raise ChildSyncError(self.reason, str(error)) from error

    async def hold(self, live: LiveT, desired: Child) -> LiveT:
        """Keep the child as it was last applied, while a newer desired body has to wait."""
        present = body_of(self.resource, live)
        is_waiting = is_behind(desired, present)
        patch = patch_back(present) if is_waiting else patch_towards(desired, present)
        try:
            return await self._patch(live, patch)
        except REFUSALS as error:
            raise ChildSyncError(self.reason, str(error)) from error

    async def drop(self, owner: Owner, key: Key) -> None:
        """Delete a child that is no longer wanted; leave another owner's child alone."""
        if live := self.owned(key, owner):
            await self.remove(live)

    async def remove(self, live: LiveT) -> None:
        key = live.metadata.key
        if live.metadata.deletionTimestamp is not None:
            return
        try:
            await self.client.delete(self.resource, key, uid=live.metadata.uid)
        except NotFoundError:
            return
        log.info("child removed", kind=self.resource.kind, child=str(key))

    async def _create(self, owner: Owner, key: Key, desired: Child) -> LiveT:
        try:
            made = await self.client.create(
                self.resource, desired.annotated(), namespace=key.namespace
            )
        except AlreadyExistsError:
            # Either the cache lags, or it does not mirror the child. In the second case it must
            # not hold it either, because no event would report its deletion.
            found = await self.client.get(self.resource, key)
            if is_owned_by(found, owner):
                self.cache.write_through(found)
            return await self._update(owner, found, desired)
        self.cache.write_through(made)
        log.info("child created", kind=self.resource.kind, child=str(key))
        return made

    async def _update(self, owner: Owner, live: LiveT, desired: Child) -> LiveT:
        if not is_owned_by(live, owner):
            what = f"{self.resource.kind} {live.metadata.key}"
            message = ownership_message(what, live.metadata.controller_owner)
            raise ChildSyncError(self.reason, message)
        key, judged = live.metadata.key, (desired, drifting_parts(live))
        if self.settled.get(key, None) == judged:
            return live
        patch = patch_towards(desired, body_of(self.resource, live))
        if not patch:
            self.settled.put(key, judged)
        return await self._patch(live, patch)

    async def _patch(self, live: LiveT, patch: JsonObject) -> LiveT:
        if not patch or live.metadata.deletionTimestamp is not None:
            return live
        mended = await self.client.patch(
            self.resource,
            live.metadata.key,
            patch,
            resource_version=live.metadata.resourceVersion,
        )
        self.cache.write_through(mended)
        log.info("child changed", kind=self.resource.kind, child=str(live.metadata.key))
        return mended
