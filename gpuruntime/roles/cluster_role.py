"""The frame of the roles that use Kubernetes: transport, registry and dependencies."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

import attrs

from gpuruntime.kube.client import Client
from gpuruntime.kube.transport import Transport
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.lookup.caches import Caches
from gpuruntime.roles.cluster_connection import cluster_transport
from gpuruntime.roles.options import operation_options_of
from gpuruntime.roles.process import Process
from gpuruntime.roles.role import PartsT, RoleRunner
from gpuruntime.settings.schema import Settings
from gpuruntime.telemetry.metrics import Registry


@attrs.frozen(kw_only=True, slots=True)
class ClusterContext:
    """The dependencies of a role's parts.

    If `is_alone`, no other client's requests reach the server.
    """

    settings: Settings
    process: Process
    registry: Registry
    transport: Transport
    is_alone: bool

    def operation_context(self, client: Client, caches: Caches) -> OperationContext:
        return OperationContext(
            client=client,
            caches=caches,
            options=operation_options_of(self.settings),
            now=self.process.now,
            rng=self.process.rng,
            meter=self.registry,
        )


def cluster_role(
    registry: Registry,
    settings: Settings,
    open_parts: Callable[[ClusterContext], AbstractAsyncContextManager[PartsT]],
    *,
    transport: Transport | None,
    process: Process | None,
) -> RoleRunner[PartsT]:
    """Return the role. A given transport is the caller's: it is neither probed nor closed."""
    process = process or Process()
    given = None if transport is None else nullcontext(transport)

    @asynccontextmanager
    async def opened() -> AsyncIterator[PartsT]:
        async with given or cluster_transport(settings.kubernetes) as connected:
            context = ClusterContext(
                settings=settings,
                process=process,
                registry=registry,
                transport=connected,
                is_alone=given is not None,
            )
            async with open_parts(context) as parts:
                yield parts

    return RoleRunner(settings, registry, opened, role_context=process.role_context)
