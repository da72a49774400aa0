"""The options of rooms as the default configuration fills them, for tests to change."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import attrs

from gpuruntime.api.auth.rate_limits import Limits
from gpuruntime.api.files.limits import FileLimits
from gpuruntime.api.http.body import BodyLimits
from gpuruntime.api.http.server import ConnectionLimits
from gpuruntime.bus.credentials import ConnectionOptions
from gpuruntime.bus.streams import StreamOptions
from gpuruntime.bus.user_jwts import SigningOptions
from gpuruntime.kube.lease import LeaseOptions
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.operations.options import Namespaces, Options
from gpuruntime.reconcilers.options import (
    HelperOptions,
    NatsPeer,
    NetworkOptions,
    PodDefaults,
    SidecarOptions,
    UnitOptions,
)
from gpuruntime.roles import broker_options, options
from gpuruntime.roles.worker import worker_options_of
from gpuruntime.serverless.calling.service import ServiceOptions
from gpuruntime.serverless.results.follower import ResultsOptions
from gpuruntime.serverless.results.postgres import PostgresOptions
from gpuruntime.serverless.scaling.activator import ActivatorOptions
from gpuruntime.settings.options import options_of
from gpuruntime.settings.schema import Settings
from gpuruntime.settings.serverless import NatsSettings, WorkerSettings
from gpuruntime.worker.options import WorkerOptions

OptionsT = TypeVar("OptionsT")

SETTINGS: Final = Settings()
_UNIT: Final = options.unit_options_of(SETTINGS)
_WORKER: Final = Settings(
    nats=NatsSettings(url="nats://nowhere"), worker=WorkerSettings(function="f", name="w")
)
_DEFAULTS: Final[dict[type, Callable[[], Any]]] = {
    Limits: lambda: options.caller_limits_of(SETTINGS),
    FileLimits: lambda: options.file_limits_of(SETTINGS),
    BodyLimits: lambda: options.body_limits_of(SETTINGS),
    ConnectionLimits: lambda: options.connection_limits_of(SETTINGS),
    Namespaces: lambda: options.namespaces_of(SETTINGS),
    Options: lambda: options.operation_options_of(SETTINGS),
    UnitOptions: lambda: _UNIT,
    PodDefaults: lambda: _UNIT.pod_defaults,
    HelperOptions: lambda: _UNIT.helpers,
    SidecarOptions: lambda: _UNIT.sidecar,
    NetworkOptions: lambda: _UNIT.network,
    NatsPeer: lambda: options_of(NatsPeer, SETTINGS.network.nats, cidr=""),
    ConnectionOptions: lambda: broker_options.connection_options_of(SETTINGS.nats, name="test"),
    StreamOptions: lambda: broker_options.stream_options_of(SETTINGS.nats),
    SigningOptions: lambda: options.signing_options_of(SETTINGS),
    WorkerOptions: lambda: worker_options_of(_WORKER),
    ServiceOptions: lambda: options.service_options_of(SETTINGS),
    PostgresOptions: lambda: options_of(PostgresOptions, SETTINGS.results.postgres, name="test"),
    ResultsOptions: lambda: options_of(ResultsOptions, SETTINGS.results),
    ActivatorOptions: lambda: options.activator_options_of(SETTINGS),
    LeaseOptions: lambda: options_of(
        LeaseOptions, SETTINGS.leaderElection, key=Key("system", "test"), identity="test"
    ),
}


def configured(kind: type[OptionsT], **members: Any) -> OptionsT:
    """Return the options of the default configuration, with these members changed."""
    made: OptionsT = attrs.evolve(_DEFAULTS[kind](), **members)
    return made
