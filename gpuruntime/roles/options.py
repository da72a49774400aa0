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
from gpuruntime.api.tickets.issuer import GatewayOptions
from gpuruntime.bus.names import Names
from gpuruntime.bus.user_jwts import Mint, SigningOptions
from gpuruntime.gateway.app import AppOptions
from gpuruntime.gateway.connections import ConnectionOptions
from gpuruntime.gateway.exchange import ExchangeOptions
from gpuruntime.gateway.splice import SpliceOptions
from gpuruntime.gateway.wake import WakeOptions
from gpuruntime.operations.options import Namespaces, Options
from gpuruntime.reconcilers.activity.reader import ActivityOptions, Fetching, ListReplicas
from gpuruntime.reconcilers.options import (
    HelperOptions,
    NatsPeer,
    NetworkOptions,
    PodDefaults,
    SidecarOptions,
    UnitOptions,
)
from gpuruntime.roles.ssh_host_key import public_host_keys
from gpuruntime.serverless.calling.service import ServiceOptions
from gpuruntime.serverless.scaling.activator import ActivatorOptions
from gpuruntime.settings.gateway import WhenUnknown
from gpuruntime.settings.options import options_of
from gpuruntime.settings.schema import PodSecurity, Settings

# The API takes no token, path or query that is longer.
API_HEAD_BYTES: Final = 32_768
_TLS: Final = ("caFile", "certificateFile", "keyFile")
_LOGIN: Final = ("passwordFile", "tokenFile", "nkeyFile", "credentialsFile")


def namespaces_of(settings: Settings) -> Namespaces:
    return options_of(Namespaces, settings.namespaces)


def operation_options_of(settings: Settings) -> Options:
    return Options(
        namespaces=namespaces_of(settings), retention_seconds=settings.operationRetention
    )


def caller_limits_of(settings: Settings) -> Limits:
    limits = settings.auth.limits
    return options_of(Limits, limits, per_second=limits.requestsPerSecond)


def connection_limits_of(
    settings: Settings, *, head_bytes: int = API_HEAD_BYTES
) -> ConnectionLimits:
    return options_of(ConnectionLimits, settings.connections, head_bytes=head_bytes)


def body_limits_of(settings: Settings) -> BodyLimits:
    given = settings.connections
    return BodyLimits(idle_seconds=given.bodyIdleTimeout, longest_seconds=given.bodyTimeout)


def file_limits_of(settings: Settings) -> FileLimits:
    return options_of(FileLimits, settings.files, longest_seconds=settings.files.timeout)


def gateway_options_of(settings: Settings) -> GatewayOptions:
    """Return the options of tickets; raise ConfigurationError without a configured host key."""
    given = settings.gateway
    return options_of(
        GatewayOptions,
        given,
        ssh_address=given.ssh.address,
        host_keys=public_host_keys(given.ssh.hostKeyFile),
        has_exec=given.exec,
    )


def connection_options_of(settings: Settings) -> ConnectionOptions:
    given = settings.gateway
    ends_unknown = given.whenUnknown is WhenUnknown.END
    return options_of(ConnectionOptions, given, given.connections, ends_unknown=ends_unknown)


def app_options_of(settings: Settings) -> AppOptions:
    given = settings.gateway
    return options_of(
        AppOptions,
        given.bytes,
        has_plain_hosts=given.plainHosts,
        exchange=options_of(ExchangeOptions, given.time, given.bytes),
        splice=options_of(SpliceOptions, given.time, given.bytes),
    )


def wake_options_of(settings: Settings) -> WakeOptions:
    given = settings.gateway
    return WakeOptions(api=given.api, hold_seconds=given.time.wakeHold)


def service_options_of(settings: Settings) -> ServiceOptions:
    return ServiceOptions(
        namespace=settings.namespaces.instance,
        retention_seconds=settings.results.streamRetention,
    )


def activator_options_of(settings: Settings) -> ActivatorOptions:
    worker = settings.worker
    return options_of(ActivatorOptions, worker, retention_seconds=worker.resultRetention)


def unit_options_of(settings: Settings) -> UnitOptions:
    return options_of(
        UnitOptions,
        settings,
        settings.kubernetes,
        stock_namespace=settings.namespaces.stock,
        instance_namespace=settings.namespaces.instance,
        system_namespace=settings.namespaces.system,
        is_restricted=settings.podSecurity is PodSecurity.RESTRICTED,
        stock_priority=settings.priorityClasses.stock,
        instance_priority=settings.priorityClasses.instance,
        pod_defaults=_pod_defaults(settings),
        helpers=options_of(HelperOptions, settings.helpers),
        sidecar=sidecar_options_of(settings),
        public_address=settings.gateway.address,
        network=NetworkOptions(
            blocked_cidrs=settings.network.blockedEgressCIDRs,
            name_servers=tuple(map(_as_cidr, settings.network.nameServers)),
            allows_all=settings.network.allowAllEgress,
            nats=_nats_peer(settings),
        ),
    )


def activity_options_of(
    settings: Settings, fetching: Fetching, gateways: ListReplicas | None
) -> ActivityOptions | None:
    """Return how the gateway's replicas are read, or None without a gateway."""
    if settings.gateway.address is None:
        return None
    return ActivityOptions(
        namespace=settings.namespaces.system,
        every_seconds=settings.activity.every,
        fetching=fetching,
        replicas=gateways,
    )


def _nats_peer(settings: Settings) -> NatsPeer | None:
    given = settings.network.nats
    if not (given.address or given.podLabels):
        return None
    cidr = _as_cidr(given.address) if given.address else ""
    return options_of(NatsPeer, given, cidr=cidr)


def _as_cidr(address: str) -> str:
    return str(ipaddress.ip_network(address))


def _pod_defaults(settings: Settings) -> PodDefaults:
    given = settings.podDefaults
    return options_of(
        PodDefaults,
        given,
        runtime_class=given.runtimeClassName,
        tolerations=tuple(
            {name: value for name, value in attrs.asdict(each).items() if value not in ("", None)}
            for each in given.tolerations
        ),
    )


def sidecar_options_of(settings: Settings) -> SidecarOptions:
    """Return the sidecar's options. With a signing key they contain no configured login."""
    given, nats, worker = settings.serverless, settings.nats, settings.worker
    is_shared = not given.signingKeyFile
    keys = (*_TLS, *_LOGIN) if is_shared else _TLS
    return options_of(
        SidecarOptions,
        given,
        nats,
        worker,
        image=given.image or f"gpuruntime:{version('gpuruntime')}",
        broker_url=nats.url,
        broker_user=nats.user if is_shared else "",
        broker_files={key: getattr(nats, key) for key in keys if getattr(nats, key)},
        retention_seconds=worker.resultRetention,
    )


def mint_of(settings: Settings, *, now: Callable[[], datetime]) -> Mint | None:
    if not settings.serverless.signingKeyFile:
        return None
    names = Names(settings.nats.subjectPrefix)
    return Mint(signing_options_of(settings), names, now=now, entropy=token_bytes)


def signing_options_of(settings: Settings) -> SigningOptions:
    given = settings.serverless
    return options_of(
        SigningOptions,
        given,
        seed_file=given.signingKeyFile,
        lifetime_seconds=given.credentialsLifetime,
    )
