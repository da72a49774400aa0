"""The mirrors of a role: informers by name, and what they say about the cluster."""

from collections.abc import Collection, Iterable
from typing import Any, Final, TypeAlias

from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import UnreachableError
from gpuruntime.kube.watch import Selection
from gpuruntime.roles.process import Process
from gpuruntime.telemetry.metrics import Registry

# A name, a resource, its selection, and the indexes of its store.
Mirror: TypeAlias = tuple[str, Any, Selection, Any]

# A server that starts or is short of capacity may refuse all requests for this long.
LONGEST_SILENCE_SECONDS: Final = 10.0
# One and a half times the longest pause between two attempts: one refusal never lasts that long.
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
    """Return why a role is not ready, or nothing if all mirrors are synced."""
    names = ", ".join(unsynced)
    return f"not synced yet: {names}" if names else ""


def is_away(informers: Collection[Informer[Any]]) -> bool:
    """Return whether the cluster is away: unreachable for all mirrors, or all fail for a while."""
    if not informers or any(each.error is None for each in informers):
        return False
    is_unreachable = all(isinstance(each.error, UnreachableError) for each in informers)
    return is_unreachable or all(
        each.failing_seconds > LONGEST_SILENCE_SECONDS for each in informers
    )


def is_behind(informer: Informer[Any]) -> bool:
    """Return whether the mirror's content is too old for a reader to take it as current."""
    return informer.failing_seconds > LONGEST_LAG_SECONDS
