"""Commands about the API and its cluster as a whole."""

from gpuruntime.commands import tables
from gpuruntime.commands.exit_codes import ExitCode
from gpuruntime.commands.session import Session
from gpuruntime.models.views.flavours import FlavourView
from gpuruntime.models.views.operators import (
    GpuProductView,
    HealthStatus,
    HealthView,
    NodeView,
    SpecView,
)


async def status(session: Session) -> int:
    view = (await session.client.health()).data
    if session.options.output == "table":
        pairs = (
            ("Status:", view.status),
            ("Version:", view.version),
            ("Cluster:", _connected(view.kubernetesConnected, view.kubernetesError)),
            ("Queue:", _connected(view.queueConnected, "")),
            ("Units:", f"{view.activeUnitCount} active"),
            ("Stock:", f"{view.readyStockCount} of {view.stockUnitCount} ready"),
            ("Nodes:", f"{view.readyNodeCount} of {view.nodeCount} ready"),
            ("GPUs:", f"{view.totalGPUAllocatable} of {view.totalGPUCapacity} allocatable"),
            ("Free GPUs:", _free_gpus(view)),
        )
        session.terminal.answer(tables.aligned(pairs))
    else:
        session.print_one(view)
    return ExitCode.DONE if view.status == HealthStatus.OK else ExitCode.REFUSED


async def flavours(session: Session) -> None:
    session.print_many(FlavourView, [each async for each in session.client.flavours()])


async def inventory(session: Session) -> None:
    fleet = (await session.client.inventory()).data
    if session.options.output != "table":
        session.print_one(fleet)
        return
    now = session.terminal.now()
    session.terminal.answer(tables.table(NodeView, fleet.nodes, now))
    session.terminal.answer("")
    session.terminal.answer(tables.table(GpuProductView, fleet.gpuProducts, now))
    session.terminal.answer("")
    session.terminal.answer(tables.table(SpecView, fleet.specs, now))
    if fleet.gpuUsageError:
        session.terminal.report(f"held and free GPUs are unknown: {fleet.gpuUsageError}")


def _free_gpus(view: HealthView) -> str:
    if view.gpuUsageError:
        return f"unknown: {view.gpuUsageError}"
    return (
        f"{view.totalGPUFree} (stock holds {view.totalGPUHeldByStock}, "
        f"units {view.totalGPUHeldByUnits}, others {view.totalGPUHeldByOthers})"
    )


def _connected(is_connected: bool, error: str) -> str:
    words = "connected" if is_connected else "not connected"
    return f"{words}: {error}" if error else words
