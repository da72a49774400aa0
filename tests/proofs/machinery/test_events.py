"""Events arrive, are counted, and are created again after they were deleted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from gpuruntime.kube.client import Client
from gpuruntime.kube.events import EventRecorder, reference_to
from gpuruntime.models.kubernetes.cluster import EVENTS, LEASES, Event, ObjectReference
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from tests.proofs.machinery.lines import Line
from tests.proofs.machinery.mirrors import Tally
from tests.proofs.machinery.worlds import now

SENT = "events_sent_total"


@pytest.fixture
def tally() -> Tally:
    return Tally()


@asynccontextmanager
async def recording(line: Line, tally: Tally) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(
        Client(line), component="gpuruntime-test", now=now, rng=Random(1), meter=tally
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(recorder.run(), name="events")
        yield recorder
        running.cancel()


def about(namespace: str, name: str = "thing") -> ObjectReference:
    return reference_to(LEASES, ObjectMeta(namespace=namespace, name=name, uid=f"uid-{name}"))


async def events_about(user: Client, namespace: str, name: str = "thing") -> list[Event]:
    selector = f"involvedObject.name={name}"
    page = await user.list_page(EVENTS, namespace=namespace, field_selector=selector)
    return list(page.items)


async def test_an_event_is_created_and_counted(
    line: Line, user: Client, namespace: str, tally: Tally
) -> None:
    async with recording(line, tally) as recorder:
        for sent in (1, 2):
            recorder.record(about(namespace), "Tested", "ü" * 2_000, is_warning=True)
            await tally.until(SENT, sent)
    (event,) = await events_about(user, namespace)
    assert (event.reason, event.type, event.count) == ("Tested", "Warning", 2)


async def test_a_deleted_event_is_created_again(
    line: Line, user: Client, namespace: str, tally: Tally
) -> None:
    async with recording(line, tally) as recorder:
        recorder.record(about(namespace), "Tested", "again")
        await tally.until(SENT, 1)
        (event,) = await events_about(user, namespace)
        await user.delete(EVENTS, event.metadata.key)
        recorder.record(about(namespace), "Tested", "again")
        await tally.until(SENT, 2)
    (event,) = await events_about(user, namespace)
    assert event.count == 1


async def test_an_event_that_the_server_rejects_delays_no_other(
    line: Line, user: Client, namespace: str, tally: Tally
) -> None:
    async with recording(line, tally) as recorder:
        recorder.record(about("nowhere-at-all"), "Tested", "lost")
        recorder.record(about(namespace, "other"), "Tested", "kept")
        await tally.until(SENT, 1)
    assert tally.of("events_dropped_total") == 1
    (event,) = await events_about(user, namespace, "other")
    assert event.message == "kept"


async def test_an_event_survives_an_absence_of_the_server(
    line: Line, user: Client, namespace: str, tally: Tally
) -> None:
    async with recording(line, tally) as recorder:
        line.cut()
        recorder.record(about(namespace), "Tested", "late")
        await asyncio.sleep(0.5)
        line.mend()
        await tally.until(SENT, 1)
    (event,) = await events_about(user, namespace)
    assert event.message == "late"
