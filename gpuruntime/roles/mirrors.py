"""What a role mirrors of the cluster: an informer for each name, and which of them still wait."""

from collections.abc import Iterable
from typing import Any, TypeAlias

from gpuruntime.informer.informer import Informer
from gpuruntime.kube.client import Client
from gpuruntime.kube.watch import Selection
from gpuruntime.observe.metrics import Registry
from gpuruntime.roles.process import Process

# A name, a resource, what of it, and the indexes of its store.
Mirror: TypeAlias = tuple[str, Any, Selection, Any]


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
