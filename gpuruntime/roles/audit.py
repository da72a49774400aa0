"""The audit by hand: list a cluster's objects, again if anything is suspicious, and report."""

import asyncio
from collections.abc import Iterable
from typing import Final

import msgspec

from gpuruntime.api.routes.audit import audit_view
from gpuruntime.audit.audit import suspicions
from gpuruntime.audit.auditor import Report, report_of
from gpuruntime.audit.breach import Breach
from gpuruntime.audit.first_seen import FirstSeen
from gpuruntime.audit.rules import RULES
from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.concurrency.clock import loop_time
from gpuruntime.errors import ClusterRequiredError
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import KubeError
from gpuruntime.kube.transport import Transport
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.tombstones import TOMBSTONE_SELECTOR
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.resources import ObjectT, Resource
from gpuruntime.models.kubernetes.volumes import JOBS, VOLUME_CLAIMS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.operations.lookup.shared_reads import list_all
from gpuruntime.operations.options import Namespaces
from gpuruntime.reconcilers.informers import OURS
from gpuruntime.roles.cluster_connection import cluster_transport, wall_clock
from gpuruntime.roles.options import namespaces_of
from gpuruntime.settings.schema import Settings

# The lists of one pass are of different moments, so a suspicion has to show in a later pass, too.
SETTLE_SECONDS: Final = 2.0
HEADER: Final = ("RULE", "OBJECTS", "WHAT IS WRONG", "REMEDY")


async def audit(
    settings: Settings, *, watch_seconds: float = 0.0, transport: Transport | None = None
) -> Report:
    """Return the report; a given transport is not closed.

    Raise ClusterRequiredError if the cluster cannot be read.
    """
    try:
        if transport is not None:
            return await _watch(Client(transport), namespaces_of(settings), watch_seconds)
        async with cluster_transport(settings.kubernetes) as own:
            return await _watch(Client(own), namespaces_of(settings), watch_seconds)
    except KubeError as error:
        raise ClusterRequiredError(f"the cluster cannot be read: {error}") from error


async def read(client: Client, names: Namespaces) -> Snapshot:
    places = (names.stock, names.instance)
    return Snapshot(
        stock=tuple(await list_all(client, GPU_UNITS, namespace=names.stock)),
        units=tuple(await list_all(client, GPU_UNITS, namespace=names.instance)),
        pools=tuple(await list_all(client, STOCK_POOLS, namespace=names.stock)),
        storages=tuple(await list_all(client, GPU_STORAGES, namespace=names.instance)),
        deployments=await _ours(client, DEPLOYMENTS, places),
        services=await _ours(client, SERVICES, places),
        policies=await _ours(client, NETWORK_POLICIES, places),
        pods=await _ours(client, PODS, places),
        claims=await _ours(client, VOLUME_CLAIMS, places),
        jobs=await _ours(client, JOBS, places),
        tombstones=tuple(
            await list_all(
                client, CONFIG_MAPS, namespace=names.system, label_selector=TOMBSTONE_SELECTOR
            )
        ),
    )


def as_table(report: Report) -> str:
    rows = [HEADER, *map(_row, report.breaches)] if report.breaches else []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, _summary(report)])


def as_json(report: Report) -> str:
    """Return the document that the API serves, with all breaches."""
    view = audit_view(report, wall_clock(), most_listed=len(report.breaches))
    return msgspec.json.format(msgspec.json.encode(view), indent=2).decode()


async def _watch(client: Client, names: Namespaces, watch_seconds: float) -> Report:
    """Read the cluster once, and again for `watch_seconds` if anything is suspicious."""
    sightings = FirstSeen(lag_seconds=SETTLE_SECONDS)
    ends_at = loop_time() + max(watch_seconds, SETTLE_SECONDS)
    while True:
        began_at = loop_time()
        snapshot = await read(client, names)
        seen = suspicions(snapshot)
        breaches = sightings.breaches(seen, began_at)
        if len(seen) == len(breaches) or loop_time() >= ends_at:
            return report_of(snapshot, seen, breaches)
        await asyncio.sleep(SETTLE_SECONDS)


async def _ours(
    client: Client, resource: Resource[ObjectT], namespaces: Iterable[str]
) -> tuple[ObjectT, ...]:
    found: list[ObjectT] = []
    for each in namespaces:
        found += await list_all(client, resource, namespace=each, label_selector=OURS)
    return tuple(found)


def _row(breach: Breach) -> tuple[str, ...]:
    objects = ", ".join(map(str, breach.objects))
    return (breach.rule, objects, breach.message, breach.remedy)


def _summary(report: Report) -> str:
    breaches = len(report.breaches) or "no"
    text = f"{len(RULES)} rules, {report.object_count} objects: {breaches} breaches"
    if report.suspicion_count:
        text += (
            f"; {report.suspicion_count} suspicions are too young to be any: "
            "watch for longer with --for 300"
        )
    return text
