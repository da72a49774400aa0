"""The configuration as the manager needs it for the workers that it puts into Pods."""

from collections.abc import Callable
from datetime import datetime
from importlib.metadata import version
from secrets import token_bytes
from typing import Final

from gpuruntime.bus.names import Names
from gpuruntime.bus.user_jwts import Mint, SigningOptions
from gpuruntime.reconcilers.options import SidecarOptions
from gpuruntime.settings.schema import Settings

_TLS: Final = ("caFile", "certificateFile", "keyFile")
_LOGIN: Final = ("passwordFile", "tokenFile", "nkeyFile", "credentialsFile")


def sidecar_options_of(settings: Settings) -> SidecarOptions:
    """With a signing key, nothing of the configured login goes to a worker."""
    given, nats, worker = settings.serverless, settings.nats, settings.worker
    is_shared = not given.signingKeyFile
    keys = (*_TLS, *_LOGIN) if is_shared else _TLS
    return SidecarOptions(
        image=given.image or f"gpuruntime:{version('gpuruntime')}",
        cpu=given.cpu,
        cpu_limit=given.cpuLimit,
        memory=given.memory,
        drain_seconds=given.drain,
        broker_url=nats.url,
        broker_user=nats.user if is_shared else "",
        broker_files={key: getattr(nats, key) for key in keys if getattr(nats, key)},
        subject_prefix=nats.subjectPrefix,
        ack_wait_seconds=worker.ackWait,
        retention_seconds=worker.resultRetention,
    )


def mint_of(settings: Settings, *, now: Callable[[], datetime]) -> Mint | None:
    given = settings.serverless
    if not given.signingKeyFile:
        return None
    options = SigningOptions(
        seed_file=given.signingKeyFile,
        account=given.account,
        lifetime_seconds=given.credentialsLifetime,
    )
    return Mint(options, Names(settings.nats.subjectPrefix), now=now, entropy=token_bytes)
