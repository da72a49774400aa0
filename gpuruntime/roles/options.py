"""The small options that each room takes, filled from the configuration."""

import ipaddress
from collections.abc import Callable
from datetime import datetime
from importlib.metadata import version
from secrets import token_bytes
from typing import Final

import attrs

from gpuruntime.api.auth.rate_limits import Limits
from gpuruntime.api.files.limits import FileLimits
from gpuruntime.api.http.body import BodyLimits
from gpuruntime.api.http.server import ConnectionLimits
from gpuruntime.bus.names import Names
from gpuruntime.bus.user_jwts import Mint, SigningOptions
from gpuruntime.operations.options import Namespaces
from gpuruntime.reconcilers.options import (
    HelperOptions,
    NatsPeer,
    NetworkOptions,
    PodDefaults,
    SidecarOptions,
    UnitOptions,
)
from gpuruntime.settings.schema import PodSecurity, Settings

_TLS: Final = ("caFile", "certificateFile", "keyFile")
_LOGIN: Final = ("passwordFile", "tokenFile", "nkeyFile", "credentialsFile")


def namespaces_of(settings: Settings) -> Namespaces:
    names = settings.namespaces
    return Namespaces(stock=names.stock, instance=names.instance, system=names.system)


def caller_limits_of(settings: Settings) -> Limits:
    limits = settings.auth.limits
    return Limits(per_second=limits.requestsPerSecond, burst=limits.burst, at_once=limits.atOnce)


def connection_limits_of(settings: Settings) -> ConnectionLimits:
    given = settings.connections
    return ConnectionLimits(
        head_seconds=given.headTimeout,
        answer_seconds=given.answerTimeout,
        idle_seconds=given.idleTimeout,
        most=given.most,
    )


def body_limits_of(settings: Settings) -> BodyLimits:
    given = settings.connections
    return BodyLimits(idle_seconds=given.bodyIdleTimeout, longest_seconds=given.bodyTimeout)


def file_limits_of(settings: Settings) -> FileLimits:
    files = settings.files
    return FileLimits(
        most_bytes=files.most_bytes,
        idle_seconds=files.idleTimeout,
        longest_seconds=files.timeout,
        at_once=files.atOnce,
        at_once_each=files.at_once_each,
    )


def unit_options_of(settings: Settings) -> UnitOptions:
    return UnitOptions(
        stock_namespace=settings.namespaces.stock,
        instance_namespace=settings.namespaces.instance,
        system_namespace=settings.namespaces.system,
        cluster_domain=settings.kubernetes.clusterDomain,
        gpu_resource=settings.gpuResource,
        is_restricted=settings.podSecurity is PodSecurity.RESTRICTED,
        stock_priority=settings.priorityClasses.stock,
        instance_priority=settings.priorityClasses.instance,
        pod_defaults=_pod_defaults(settings),
        helpers=HelperOptions(
            accessor_image=settings.helpers.accessorImage,
            copy_image=settings.helpers.copyImage,
            cpu=settings.helpers.cpu,
            memory=settings.helpers.memory,
        ),
        sidecar=sidecar_options_of(settings),
        network=NetworkOptions(
            blocked_cidrs=settings.network.blockedEgressCIDRs,
            name_servers=tuple(map(_as_cidr, settings.network.nameServers)),
            allows_all=settings.network.allowAllEgress,
            nats=_nats_peer(settings),
        ),
    )


def _nats_peer(settings: Settings) -> NatsPeer | None:
    given = settings.network.nats
    if not (given.address or given.podLabels):
        return None
    return NatsPeer(
        namespace_labels=given.namespaceLabels,
        pod_labels=given.podLabels,
        cidr=_as_cidr(given.address) if given.address else "",
        port=given.port,
    )


def _as_cidr(address: str) -> str:
    return str(ipaddress.ip_network(address))


def _pod_defaults(settings: Settings) -> PodDefaults:
    given = settings.podDefaults
    return PodDefaults(
        cpu=given.cpu,
        memory=given.memory,
        ephemeral_storage=given.ephemeralStorage,
        image_pull_secrets=given.imagePullSecrets,
        tolerations=tuple(
            {name: value for name, value in attrs.asdict(each).items() if value not in ("", None)}
            for each in given.tolerations
        ),
        node_selector=given.nodeSelector,
        runtime_class=given.runtimeClassName,
    )


def sidecar_options_of(settings: Settings) -> SidecarOptions:
    """Return the sidecar's options. With a signing key they contain no configured login."""
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
