"""Secrets of workers: created before the worker's Pod, and renewed while it runs.

No code here lists or watches Secrets. What was written is remembered, and read again from time to
time, and by every new leader.
"""

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Final

import attrs
import structlog

from gpuruntime.bus.credentials import secret_in
from gpuruntime.bus.errors import BusError
from gpuruntime.bus.user_jwts import Mint, UserCredentials
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.reasons import UnitReason
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit, child_key
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.secrets import SECRETS, Secret
from gpuruntime.reconcilers.children.keeper import REFUSALS, ChildSyncError
from gpuruntime.reconcilers.children.refusals import is_owned_by, ownership_message
from gpuruntime.reconcilers.functions.declaration_plan import NO_BROKER
from gpuruntime.reconcilers.functions.worker_secret_plan import (
    CREDENTIALS,
    Validity,
    function_declared_by,
    function_of,
    kept_credentials,
    patch_of_secret,
    renewal_seconds,
    secret_body,
    secret_data,
    with_limits,
)
from gpuruntime.reconcilers.options import SidecarOptions

log = structlog.get_logger()

# A change or deletion of a Secret by others is noticed after at most this time.
LOOK_SECONDS: Final = 600.0
# A Secret that could not be written is retried after this time.
RETRY_SECONDS: Final = 15.0


@attrs.frozen(slots=True)
class _Kept:
    """Inputs of a Secret as last read or written, trusted until that loop time."""

    inputs: str
    until: float


class WorkerSecrets:
    """WorkerSecrets keeps them. Without a mint, all workers use the manager's own broker login."""

    def __init__(
        self,
        client: Client,
        options: SidecarOptions,
        *,
        mint: Mint | None,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._options = options
        self._mint = mint
        self._now = now
        self._kept: dict[Key, _Kept] = {}

    async def keep(self, unit: GPUUnit, template: GPUUnit | None) -> None:
        """Keep the Secret of the worker; raise ChildSyncError if that fails.

        `template` is the unit that has the name of the worker's template now, or None.
        """
        try:
            await self._keep(unit, template)
        except ChildSyncError:
            self._believe(unit, "", RETRY_SECONDS)
            raise

    async def _keep(self, unit: GPUUnit, template: GPUUnit | None) -> None:
        if not self._options.broker_url:
            raise ChildSyncError(UnitReason.QUEUE_UNKNOWN, NO_BROKER)
        declared = function_declared_by(template, unit)
        if declared is not None:
            _demand_own_function(unit, declared)
            unit = with_limits(unit, declared)
        try:
            files, validity = self._read(unit)
        except BusError as error:
            raise ChildSyncError(UnitReason.WORKER_SYNC_FAILED, str(error)) from error
        inputs = _digest(unit, secret_data(unit, self._options, files), validity)
        if self._is_known(unit, inputs):
            return
        try:
            live = await self._write(unit, files, validity)
        except (BusError, *REFUSALS) as error:
            raise ChildSyncError(UnitReason.WORKER_SYNC_FAILED, str(error)) from error
        seconds = renewal_seconds(live, validity, self._now()) if validity else LOOK_SECONDS
        self._believe(unit, inputs, min(seconds, LOOK_SECONDS))

    def look_again_seconds(self, unit: GPUUnit) -> float | None:
        kept = self._kept.get(unit.metadata.key)
        return max(kept.until - loop_time(), 0.0) if kept else None

    def forget(self, key: Key) -> None:
        self._kept.pop(key, None)

    def _believe(self, unit: GPUUnit, inputs: str, seconds: float) -> None:
        until = loop_time() + seconds
        self._kept[unit.metadata.key] = _Kept(inputs, until)

    def _read(self, unit: GPUUnit) -> tuple[dict[str, str], Validity | None]:
        files = {key: secret_in(path) for key, path in self._options.broker_files.items()}
        if self._mint is None:
            return files, None
        purpose = self._mint.purpose(function_of(unit).requestID)
        return files, Validity(purpose=purpose, lifetime_seconds=self._mint.lifetime_seconds)

    def _is_known(self, unit: GPUUnit, inputs: str) -> bool:
        kept = self._kept.get(unit.metadata.key)
        is_believed = kept is not None and loop_time() < kept.until
        return is_believed and kept is not None and kept.inputs == inputs

    async def _write(
        self, unit: GPUUnit, files: dict[str, str], validity: Validity | None
    ) -> Secret:
        live = await self._look(unit)
        minted: UserCredentials | None = None
        if self._mint is not None and validity is not None:
            text = kept_credentials(live, validity, self._now())
            if text is None:
                minted = self._mint.worker(function_of(unit).requestID, unit.metadata.name)
                text = minted.text
            files = {**files, CREDENTIALS: text}
        body = secret_body(unit, secret_data(unit, self._options, files), minted, validity)
        key = child_key(unit)
        if live is None:
            log.info("secret made", secret=str(key), unit=unit.metadata.name)
            return await self._client.create(SECRETS, body, namespace=key.namespace)
        return await self._update(live, body)

    async def _update(self, live: Secret, body: JsonObject) -> Secret:
        patch = patch_of_secret(live, body)
        if not patch:
            return live
        key = live.metadata.key
        log.info("secret changed", secret=str(key))
        version = live.metadata.resourceVersion
        return await self._client.patch(SECRETS, key, patch, resource_version=version)

    async def _look(self, unit: GPUUnit) -> Secret | None:
        """Return the unit's own Secret, or None; delete one that an earlier unit left."""
        key = child_key(unit)
        try:
            live = await self._client.get(SECRETS, key)
            if is_owned_by(live, unit):
                return live
            if not _is_left_over(live, unit):
                message = ownership_message(f"Secret {key}", live.metadata.controller_owner)
                raise ChildSyncError(UnitReason.WORKER_SYNC_FAILED, message)
            await self._client.delete(SECRETS, key, uid=live.metadata.uid)
        except NotFoundError:
            return None
        return None


def _demand_own_function(unit: GPUUnit, declared: Serverless) -> None:
    """Raise ChildSyncError if the worker was edited to serve another function's queue."""
    wanted = function_of(unit)
    if wanted.requestID == declared.requestID or wanted.workerOf is None:
        return
    raise ChildSyncError(
        UnitReason.SERVERLESS_CONFIG_INVALID,
        f"serverless.requestID is {wanted.requestID}, and unit {wanted.workerOf.name}, whose "
        f"worker this is, declares {declared.requestID}: set that, or delete this unit",
    )


def _is_left_over(live: Secret, unit: GPUUnit) -> bool:
    """Return whether an earlier unit of this name owned it; that unit must be gone."""
    owner = live.metadata.controller_owner
    is_units = owner is not None and owner.kind == GPU_UNITS.kind
    return is_units and owner is not None and owner.name == unit.metadata.name


def _digest(unit: GPUUnit, data: dict[str, str], validity: Validity | None) -> str:
    said: JsonObject = {
        "uid": unit.metadata.uid,
        "data": dict(data),
        "purpose": validity.purpose if validity else "",
    }
    return hashlib.sha256(codec.encode_canonical(said)).hexdigest()
