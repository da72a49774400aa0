"""What a role mirrors of the cluster: an informer for each name, and what they hear of it."""

from collections.abc import Collection, Iterable
from typing import Any, Final, TypeAlias

from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import UnreachableError
from gpuruntime.kube.watch import Selection
from gpuruntime.roles.process import Process
from gpuruntime.telemetry.metrics import Registry

# A name, a resource, what of it, and the indexes of its store.
Mirror: TypeAlias = tuple[str, Any, Selection, Any]

# For so long a server that starts, or is short of capacity, may refuse everything.
LONGEST_SILENCE_SECONDS: Final = 10.0
# Half as much again as the longest wait between two tries: one refusal never lasts so long.
LONGEST_LAG_SECONDS: Final = 45.0


def mirrors(
    client: Client,
    table: Iterable[Mirror],
    process: Process,
    registry: Registry,
    *,
    is_checked: bool = False,
) -> dict[str, Informer[Any]]:
    return {
        name: Informer(
            client,
            resource,
            rng=process.rng,
            selection=selection,
            mirror=name,
            indexes=indexes,
            meter=registry,
            is_checked=is_checked,
        )
        for name, resource, selection, indexes in table
    }


def waits_for(unsynced: Iterable[str]) -> str:
    """Why a role is not ready; empty where nothing is left to wait for."""
    names = ", ".join(unsynced)
    return f"not synced yet: {names}" if names else ""


def is_away(informers: Collection[Informer[Any]]) -> bool:
    """None of them hears of the cluster: at once without a connection, else once it lasts."""
    if not informers or any(each.error is None for each in informers):
        return False
    is_unreachable = all(isinstance(each.error, UnreachableError) for each in informers)
    return is_unreachable or all(
        each.failing_seconds > LONGEST_SILENCE_SECONDS for each in informers
    )


def is_behind(informer: Informer[Any]) -> bool:
    """What it holds is older than a reader may take for new."""
    return informer.failing_seconds > LONGEST_LAG_SECONDS
