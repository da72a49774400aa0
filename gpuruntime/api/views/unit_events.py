"""Kubernetes Events of a unit and its Pods, newest first."""

from datetime import UTC, datetime

import attrs

from gpuruntime.kube.client import Client
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.cluster import EVENTS, Event
from gpuruntime.models.kubernetes.pods import PODS, Pod
from gpuruntime.models.kubernetes.timestamps import rfc3339_micro
from gpuruntime.models.views.units import EventView
from gpuruntime.operations.errors import bounded
from gpuruntime.operations.lookup.scopes import tenant_of
from gpuruntime.operations.lookup.shared_reads import list_all

_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


@attrs.frozen(kw_only=True, slots=True)
class EventPage:
    """A page of Events; `next` is the position of its last Event, empty on the last page."""

    events: list[EventView]
    next: tuple[str, ...] = ()


class UnitEvents:
    def __init__(self, client: Client, *, timeout_seconds: float = 30.0) -> None:
        self._client = client
        self._timeout_seconds = timeout_seconds

    async def page(self, unit: GPUUnit, *, limit: int, after: tuple[str, ...] = ()) -> EventPage:
        """Read a page from the cluster, as no informer caches Events; raise OperationsError."""
        async with bounded(
            f"reading the events of unit {unit.metadata.name}", self._timeout_seconds
        ):
            events = await self._about(unit)
        events.sort(key=_position_of, reverse=True)
        rest = [event for event in events if not after or _position_of(event) < after]
        kept = rest[:limit]
        return EventPage(
            events=[event_view(event) for event in kept],
            next=_position_of(kept[-1]) if len(rest) > limit else (),
        )

    async def _about(self, unit: GPUUnit) -> list[Event]:
        namespace = unit.metadata.namespace
        pods = await pods_of(self._client, unit)
        found: list[Event] = []
        for uid in (unit.metadata.uid, *(pod.metadata.uid for pod in pods)):
            token = ""
            while True:
                page = await self._client.list_page(
                    EVENTS,
                    namespace=namespace,
                    field_selector=f"involvedObject.uid={uid}",
                    continue_token=token,
                )
                found += page.items
                token = page.continue_token
                if not token:
                    break
        return found


async def pods_of(client: Client, unit: GPUUnit) -> list[Pod]:
    """Return the unit's Pods, newest last; raise KubeError.

    Pods of an earlier unit of the same name are left out. A Pod of an older version has no uid, so
    its tenant has to be the unit's.
    """
    pods = await list_all(
        client,
        PODS,
        namespace=unit.metadata.namespace,
        label_selector=f"{labels.UNIT}={unit.metadata.name}",
    )
    own = [
        pod
        for pod in pods
        if pod.metadata.labels.get(labels.UNIT_UID, unit.metadata.uid) == unit.metadata.uid
        and tenant_of(pod) == tenant_of(unit)
    ]
    return sorted(own, key=lambda pod: pod.metadata.creationTimestamp or _BEFORE_ALL)


def event_view(event: Event) -> EventView:
    return EventView(
        type=event.type,
        reason=event.reason,
        message=event.message,
        objectKind=event.involvedObject.kind,
        objectName=event.involvedObject.name,
        component=event.source.component or event.reportingComponent,
        count=max(event.count, event.series.count if event.series else 0, 1),
        firstSeenAt=event.firstTimestamp or event.eventTime or event.last_seen_at,
        lastSeenAt=event.last_seen_at,
    )


def _position_of(event: Event) -> tuple[str, ...]:
    """Return the sort key; only an Event that occurs again moves to the front."""
    seen_at = event.last_seen_at or event.metadata.creationTimestamp or _BEFORE_ALL
    return (rfc3339_micro(seen_at), event.metadata.name)
