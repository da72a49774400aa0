"""Keeper of children: it writes a child as desired, unless another owner has its name."""

from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import attrs
import msgspec
import structlog

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import Key, KubernetesObject, ObjectMeta, OwnerReference
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.operations.lookup.caches import Cache
from gpuruntime.reconcilers.children.drift import Child, is_behind, patch_back, patch_towards

log = structlog.get_logger()

# The server rejects the content of the request, and will do so again until something changes.
REFUSALS = (BadRequestError, ForbiddenError, InvalidError)


class HasSpec(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def spec(self) -> msgspec.Raw: ...


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

    def find(self, key: Key) -> LiveT | None:
        return self.cache.store.get(key)

    def owned(self, key: Key, owner: Owner) -> LiveT | None:
        live = self.find(key)
        return live if live is not None and is_owned_by(live, owner) else None

    async def owned_live(self, key: Key, owner: Owner) -> LiveT | None:
        """Read the owner's child live, for decisions that a cache that lags must not take."""
        live = await self._look(key)
        return live if live is not None and is_owned_by(live, owner) else None

    async def obstacle(self, owner: Owner, key: Key) -> str:
        """Name the other owner of a child in the way, or return nothing if none is known."""
        live = await self._known(owner, key)
        return "" if live is None or is_owned_by(live, owner) else self._refusal(live)

    async def demand_own(self, owner: Owner, key: Key) -> None:
        """Raise ChildSyncError if another owner's child is in the way."""
        if obstacle := await self.obstacle(owner, key):
            raise ChildSyncError(self.reason, obstacle)

    async def keep(self, owner: Owner, key: Key, desired: Child) -> LiveT:
        """Create or patch the child if needed, and return it."""
        try:
            live = await self._known(owner, key)
            if live is None:
                return await self._create(owner, key, desired)
            return await self._update(owner, live, desired)
        except REFUSALS as error:
            raise ChildSyncError(self.reason, str(error)) from error

    async def hold(self, live: LiveT, desired: Child) -> LiveT:
        """Keep the child as it was last applied, while a newer desired body has to wait."""
        present = self._as_json(live)
        is_waiting = is_behind(desired, present)
        patch = patch_back(present) if is_waiting else patch_towards(desired, present)
        try:
            return await self._patch(live, patch)
        except REFUSALS as error:
            raise ChildSyncError(self.reason, str(error)) from error

    def is_behind(self, live: LiveT, desired: Child) -> bool:
        return is_behind(desired, self._as_json(live))

    async def drop(self, owner: Owner, key: Key) -> None:
        """Delete a child that is no longer wanted; leave another owner's child alone."""
        live = self.owned(key, owner)
        if live is None or live.metadata.deletionTimestamp is not None:
            return
        try:
            await self.client.delete(self.resource, key, uid=live.metadata.uid)
        except NotFoundError:
            return
        log.info("child removed", kind=self.resource.kind, child=str(key))

    async def _known(self, owner: Owner, key: Key) -> LiveT | None:
        """Return the child; read it live if the owner's status says that it was refused.

        The refusal may be due to a child of another owner, which the cache does not mirror.
        """
        live = self.find(key)
        was_refused = any(each.reason == self.reason for each in owner.status.conditions)
        return await self._look(key) if live is None and was_refused else live

    async def _look(self, key: Key) -> LiveT | None:
        try:
            return await self.client.get(self.resource, key)
        except NotFoundError:
            return None

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
            raise ChildSyncError(self.reason, self._refusal(live))
        return await self._patch(live, patch_towards(desired, self._as_json(live)))

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

    def _as_json(self, live: LiveT) -> JsonObject:
        """Return what our children set: the kind, the metadata that we compare, and the spec."""
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": codec.to_json(live.metadata),
            "spec": codec.decode_object(bytes(live.spec)),
        }

    def _refusal(self, live: LiveT) -> str:
        what = f"{self.resource.kind} {live.metadata.key}"
        return ownership_message(what, live.metadata.controller_owner)


def ownership_message(child: str, owner: OwnerReference | None) -> str:
    """Return a message about a child that has a name of ours but another owner."""
    belongs = f"belongs to {owner.kind} {owner.name}" if owner else "has no owner"
    return f"{child} {belongs}: it is left as it is; delete or rename it to make room for ours"


def is_owned_by(live: KubernetesObject, owner: KubernetesObject) -> bool:
    controller = live.metadata.controller_owner
    return controller is not None and controller.uid == owner.metadata.uid
