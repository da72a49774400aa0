"""Contents of a worker's Secret: its configuration and its login, and when to renew them.

The Secret never restarts a worker. Its files are updated in place; the worker reads limits from
them regularly, and logins at each connect.
"""

import base64
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import attrs
import yaml

from gpuruntime.bus.user_jwts import UserCredentials
from gpuruntime.models.encoding.json import JsonObject, JsonValue
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.labels import GROUP
from gpuruntime.models.kinds.tombstones import EXPIRES_AT
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.secrets import SECRETS, Secret
from gpuruntime.models.kubernetes.timestamps import moment_of, rfc3339
from gpuruntime.reconcilers.options import SidecarOptions
from gpuruntime.reconcilers.unit.children import child_metadata
from gpuruntime.reconcilers.unit.sidecar import (
    GIVE_BACK_SECONDS,
    SETTINGS_FILE,
    SETTINGS_FOLDER,
    operations_port,
    socket_of_worker,
)

# Annotation with the purpose of minted credentials.
PURPOSE: Final = f"{GROUP}/credentials-for"
CREDENTIALS: Final = "credentialsFile"
# Credentials are renewed when this share of their lifetime is left.
RENEWED_WITH: Final = 1 / 3

Files: TypeAlias = Mapping[str, str]


@attrs.frozen(kw_only=True, slots=True)
class Validity:
    """The purpose that minted credentials must have, and their lifetime."""

    purpose: str
    lifetime_seconds: float


def function_declared_by(template: GPUUnit | None, worker: GPUUnit) -> Serverless | None:
    """Return the declaration, or None if the worker's template is gone or declares nothing."""
    owner = function_of(worker).workerOf
    if template is None or owner is None or template.metadata.uid != owner.uid:
        return None
    return template.spec.serverless


def with_limits(worker: GPUUnit, declared: Serverless) -> GPUUnit:
    """Return the worker with the template's current limits, which restart no worker."""
    limited = attrs.evolve(
        function_of(worker),
        timeoutSeconds=declared.timeoutSeconds,
        maxAttempts=declared.maxAttempts,
    )
    return attrs.evolve(worker, spec=attrs.evolve(worker.spec, serverless=limited))


def function_of(unit: GPUUnit) -> Serverless:
    return unit.spec.serverless or Serverless(requestID="")


def worker_settings(unit: GPUUnit, options: SidecarOptions, files: Files) -> str:
    """Return the configuration of `gpuruntime worker`; `files` are by configuration key."""
    function = function_of(unit)
    settings: JsonObject = {
        "operations": {"listen": f":{operations_port(unit)}"},
        "shutdownGrace": options.drain_seconds + GIVE_BACK_SECONDS,
        "nats": {
            "url": options.broker_url,
            "subjectPrefix": options.subject_prefix,
            "user": options.broker_user,
            **{key: f"{SETTINGS_FOLDER}/{file_name(key)}" for key in files},
        },
        "worker": {
            "function": function.requestID,
            "name": unit.metadata.name,
            "uid": unit.metadata.uid,
            "declarer": function.workerOf.uid if function.workerOf else "",
            "namespace": unit.metadata.namespace,
            "concurrency": function.concurrency,
            "attemptTimeout": function.timeoutSeconds,
            "maxAttempts": function.maxAttempts,
            "ackWait": options.ack_wait_seconds,
            "resultRetention": options.retention_seconds,
            "framework": {
                "socketPath": socket_of_worker(unit),
                "invokePath": function.framework.invokePath,
                "healthPath": function.framework.healthPath,
            },
        },
    }
    return yaml.safe_dump(settings, sort_keys=False)


def file_name(key: str) -> str:
    """Return the name in the Secret of the file that a configuration key names."""
    return key.removesuffix("File")


def secret_data(unit: GPUUnit, options: SidecarOptions, files: Files) -> dict[str, str]:
    texts = {SETTINGS_FILE: worker_settings(unit, options, files)}
    texts |= {file_name(key): text for key, text in files.items()}
    return {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}


def secret_body(
    unit: GPUUnit,
    data: Mapping[str, str],
    minted: UserCredentials | None,
    validity: Validity | None,
) -> JsonObject:
    metadata = child_metadata(unit)
    if minted is not None and validity is not None:
        marks = {PURPOSE: validity.purpose, EXPIRES_AT: rfc3339(minted.expires_at)}
        metadata = {**metadata, "annotations": marks}
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": metadata,
        "data": dict(data),
    }


def kept_credentials(live: Secret | None, validity: Validity, now: datetime) -> str | None:
    """Return the credentials in the Secret, or None if new ones are due."""
    text = live.data.get(file_name(CREDENTIALS), "") if live else ""
    if live is None or not text or renewal_seconds(live, validity, now) <= 0:
        return None
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return None


def renewal_seconds(live: Secret, validity: Validity, now: datetime) -> float:
    """Return the seconds until new credentials are due; 0 if they are due now."""
    marks = live.metadata.annotations
    expires_at = moment_of(marks.get(EXPIRES_AT, ""))
    if expires_at is None or marks.get(PURPOSE) != validity.purpose:
        return 0.0
    due_at = expires_at - timedelta(seconds=validity.lifetime_seconds * RENEWED_WITH)
    return max((due_at - now).total_seconds(), 0.0)


def patch_of_secret(live: Secret, body: JsonObject) -> JsonObject:
    """Return the merge patch to the desired Secret, or an empty one."""
    data, metadata = _object(body["data"]), _object(body["metadata"])
    changed = {name: text for name, text in data.items() if live.data.get(name) != text}
    gone: JsonObject = dict.fromkeys(live.data.keys() - data.keys())
    wanted = _object(metadata.get("annotations", {}))
    present = live.metadata.annotations
    marks = {name: text for name, text in wanted.items() if present.get(name) != text}
    return {
        **({"data": {**changed, **gone}} if changed or gone else {}),
        **({"metadata": {"annotations": marks}} if marks else {}),
    }


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
