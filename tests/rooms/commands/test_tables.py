"""Views as people read them."""

import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import msgspec
import pytest

from gpuruntime.client.storages import FileEntry
from gpuruntime.commands import tables
from gpuruntime.commands.progress import Before, Progress, Step, steps_of
from gpuruntime.commands.terminal import Terminal
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.invocations import FunctionError
from gpuruntime.models.kinds.templates import EnvVar, Port, Template
from gpuruntime.models.kinds.units import StorageMount, Timeline
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.views.operators import GpuProductView, Job
from gpuruntime.models.views.serverless import InvocationView
from gpuruntime.models.views.units import AccessView, SourceStock, UnitView
from tests.rooms.commands.views import POOL, STORAGE, UNIT

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SEEDING = Job(
    operationID="seed",
    type="seed_stock_units",
    status="succeeded",
    objectName="op-1",
    objectNamespace="runtime-stock",
    requested=2,
    created=2,
    ready=0,
    consumed=0,
    error="",
    message="",
    createdAt=NOW,
    updatedAt=NOW,
)
FULL_UNIT = attrs.evolve(
    UNIT,
    tenant="blue",
    gpuProduct="NVIDIA-A10",
    template=Template(
        command=("python",),
        args=("-m", "train"),
        envs=(EnvVar(name="EPOCHS", value="3"), EnvVar(name="SEED", value="17")),
        ports=(Port(name="http", port=8123),),
    ),
    access=AccessView(
        primaryPort="http",
        scheme="http",
        readiness="tcp",
        wake=True,
        sshKeys=("ssh-rsa AAAA me", "ssh-rsa BBBB"),
        generation=61,
        slug="demo-abc",
        urls={"http": "https://8123--demo-abc.units.example.com"},
    ),
    storageMounts=(StorageMount(name="weights", mountPath="/models", readOnly=True),),
    serverless=Serverless(requestID="greet", minAvailableCount=19, maxWorkers=23),
    message="all is well",
    conditions=(Condition(type="StorageReady", status="True", reason="Mounted", message="one"),),
    readyReplicas=29,
    generation=31,
    observedGeneration=37,
    serviceName="unit-demo",
    accessURL="http://unit-demo:8123",
    sourceStock=SourceStock(name="pool-7", namespace="runtime-stock", uid="uid-7"),
    timeline=Timeline(acceptedAt=NOW + timedelta(seconds=41)),
)
FULL_INVOCATION = InvocationView(
    invocationID="order-17",
    serverlessRequestID="greet",
    mode="async",
    state="failed",
    position=None,
    waitingFor=None,
    series=43,
    attempt=47,
    workerName="greet-w-1",
    statusCode=500,
    contentType="application/json",
    headers={"x-cost": "53"},
    body={"partial": 59},
    error=FunctionError(type="KeyError", message="no such key", traceback="File a\nFile b"),
    failureClass="framework_error",
    acceptedAt=NOW + timedelta(seconds=1),
    deadlineAt=NOW + timedelta(seconds=2),
    startedAt=NOW + timedelta(seconds=3),
    completedAt=NOW + timedelta(seconds=4),
)
HOSTILE = FileEntry(name="a\x1b[2J\nb\u202e\x85c", size=3)


def leaves(value: object) -> Iterator[str]:
    """Yield every text and number of a document, as a person would look for it."""
    match value:
        case dict():
            for each in value.values():
                yield from leaves(each)
        case list() | tuple():
            for each in value:
                yield from leaves(each)
        case bool() | None:
            return
        case str():
            for each in value.splitlines():
                yield each.removesuffix("Z")
        case _:
            yield str(value)


def test_unknown_numbers_of_gpus_show_as_a_question_mark() -> None:
    held = {"gpuHeldByStock": None, "gpuHeldByUnits": 2, "gpuHeldByOthers": None, "gpuFree": 0}
    view = GpuProductView(product="H100", nodes=1, gpuCapacity=8, gpuAllocatable=8, **held)
    assert tables.row(view, NOW).split() == ["H100", "1", "8", "8", "?", "2", "?", "0"]


def test_columns_are_aligned_and_a_cell_is_one_line() -> None:
    files = [HOSTILE, FileEntry(name="sub", path_type="Dir"), FileEntry(name="x" * 200, size=1)]
    first, second, third, fourth = tables.table(FileEntry, files, NOW).splitlines()
    assert (first.split(), third) == (["NAME", "SIZE"], "sub/")
    assert second.split() == ["a\\u001b[2J", "b\\u202e", "c", "3"]
    assert fourth.split() == ["x" * 119 + "…", "1"]
    assert len({each.index(size) for each, size in ((second, "3"), (fourth, " 1"))}) <= 2


@pytest.mark.parametrize("view", [FULL_UNIT, FULL_INVOCATION], ids=["unit", "invocation"])
def test_details_show_every_value_of_the_view(view: UnitView | InvocationView) -> None:
    text = tables.details(view, NOW)
    hidden = [value for value in leaves(msgspec.to_builtins(view)) if value not in text]
    assert hidden == []


def test_details_name_the_first_port_if_none_is_primary_and_omit_what_was_not_asked() -> None:
    ports = (Port(name="web", port=80), Port(name="more", port=81))
    template = attrs.evolve(UNIT.template, ports=ports)
    text = tables.details(attrs.evolve(UNIT, template=template), NOW)
    assert re.search(r"^Primary port: +web, http, readiness tcp$", text, re.MULTILINE)
    assert "Wake" not in text
    assert "Tickets" not in text


def test_an_envelope_without_cpu_names_none() -> None:
    text = tables.details(attrs.evolve(POOL, cpu="", memory="1Gi", gpu=1), NOW)
    assert re.search(r"^Envelope: +memory 1Gi, gpu 1$", text, re.MULTILINE)


def test_details_are_printable_line_by_line() -> None:
    hostile = attrs.evolve(FULL_UNIT, image="a\x1b[2J\nb", tenant="\u202e")
    template = attrs.evolve(FULL_UNIT.template, envs=(EnvVar(name="A", value="1\x1b\n2"),))
    text = tables.details(attrs.evolve(hostile, template=template), NOW)
    assert text.replace("\n", "").isprintable()


def test_steps_of_a_timeline_count_from_the_first() -> None:
    timeline = Timeline(
        acceptedAt=NOW + timedelta(seconds=0.4),
        createdAt=NOW,
        readyAt=NOW + timedelta(seconds=2),
    )
    assert steps_of(timeline) == [
        Step(word="accepted", seconds=0.0),
        Step(word="created", seconds=0.0),
        Step(word="ready", seconds=1.6),
    ]
    assert steps_of(Timeline()) == []


def test_steps_after_a_change_are_the_new_ones_since_it_was_asked() -> None:
    asked_at = NOW + timedelta(hours=1)
    old = Timeline(acceptedAt=NOW, createdAt=NOW, readyAt=NOW + timedelta(seconds=2))
    before = Before(timeline=old, asked_at=asked_at)
    assert steps_of(old, before) == []
    later = attrs.evolve(old, readyAt=asked_at + timedelta(seconds=3))
    assert steps_of(later, before) == [Step(word="ready", seconds=3.0)]


def test_a_table_says_why_stock_is_not_ready() -> None:
    words = "2 of 2 units have no node, p-1: 0/2 nodes are available"
    assert tables.row(attrs.evolve(SEEDING, message=words), NOW).endswith(words)
    failed = attrs.evolve(SEEDING, error="no such image", message="no such image")
    assert tables.row(failed, NOW).count("no such image") == 1
    assert tables.details(failed, NOW).count("no such image") == 1


WAITING = attrs.evolve(UNIT, phase="Progressing", reason="PodUnschedulable", message="0/2 " * 99)


@pytest.mark.parametrize("width", [60, 100, 300], ids="{} columns".format)
def test_a_message_ends_where_the_line_of_the_terminal_ends(width: int) -> None:
    header, short, long = tables.table(UnitView, [UNIT, WAITING], NOW, width).splitlines()
    at = header.index("MESSAGE")
    assert len(short) <= at
    assert len(long) == max(width, at + 20)
    assert long[at:].startswith("0/2 0/2 ")
    assert long.endswith("…")
    alone = tables.row(WAITING, NOW, width)
    assert (len(alone), alone[-1]) == (max(width, alone.index("0/2") + 20), "…")


def test_a_message_that_is_not_for_a_screen_is_cut_as_any_cell() -> None:
    _, row = tables.table(UnitView, [WAITING], NOW).splitlines()
    for text in (row, tables.row(WAITING, NOW)):
        assert len(text[text.index("0/2") :]) == 120


def test_a_line_without_a_message_is_never_cut() -> None:
    files = [FileEntry(name="x" * 60, size=1)]
    assert "…" not in tables.table(FileEntry, files, NOW, 20)


@pytest.mark.parametrize("view", [WAITING, POOL, STORAGE], ids=["unit", "pool", "storage"])
def test_a_message_stands_in_the_table_until_the_object_is_ready(view: Any) -> None:
    waiting = attrs.evolve(view, message="waits for room")
    ready = attrs.evolve(waiting, phase="Ready")
    assert [tables.row(each, NOW).count("waits for room") for each in (waiting, ready)] == [1, 0]
    for each in (waiting, ready):
        assert tables.details(each, NOW).count("waits for room") == 1


def test_a_worker_without_an_address_is_called_serverless() -> None:
    worker = attrs.evolve(UNIT, serverless=Serverless(requestID="greet"))
    assert "   serverless   " in tables.row(worker, NOW)
    reached = attrs.evolve(worker, accessURL="http://unit-demo:80")
    assert "   serverless   " not in tables.row(reached, NOW)


def test_a_state_that_comes_back_is_shown_again() -> None:
    err = io.StringIO()
    progress = Progress(Terminal(out=io.StringIO(), err=err), "seed")
    for ready in (0, 0, 1, 0):
        progress.job(attrs.evolve(SEEDING, ready=ready))
    assert err.getvalue().splitlines() == [
        f"seed: 2 of 2 created, {ready} ready" for ready in (0, 1, 0)
    ]


@pytest.mark.parametrize(
    ("suspended", "phase", "shown"),
    [
        pytest.param(True, "Ready", "Suspending", id="a running unit that was just suspended"),
        pytest.param(True, "Progressing", "Suspending", id="its Pod ends"),
        pytest.param(True, "Suspended", "Suspended", id="it is suspended"),
        pytest.param(True, "Failed", "Failed", id="a suspended unit that failed"),
        pytest.param(False, "Suspended", "Resuming", id="it was just resumed"),
        pytest.param(False, "Ready", "Ready", id="it runs"),
    ],
)
def test_the_phase_of_a_unit_says_what_it_becomes(suspended: bool, phase: str, shown: str) -> None:
    view = attrs.evolve(UNIT, suspended=suspended, phase=phase)
    _, row = tables.table(UnitView, [view], NOW, 200).splitlines()
    assert row.split()[2] == shown


def test_a_wait_says_that_a_ready_unit_has_to_stay_so() -> None:
    err = io.StringIO()
    progress = Progress(Terminal(out=io.StringIO(), err=err), "demo")
    progress.stable_seconds = 5.0
    for _ in range(2):
        progress.unit(UNIT)
    assert err.getvalue() == "demo: it has to stay so for 5 s\n"


def test_a_wait_leaves_out_the_suspended_state_of_a_resumed_unit() -> None:
    err = io.StringIO()
    progress = Progress(Terminal(out=io.StringIO(), err=err), "demo")
    for reason, phase in (("ScaledToZero", "Suspended"), ("PodUnschedulable", "Progressing")):
        progress.unit(attrs.evolve(UNIT, reason=reason, phase=phase, message="words"))
    assert err.getvalue() == "demo: PodUnschedulable: words\n"
