"""Commands from their arguments to their output, messages and exit codes."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO

import pytest
import yaml
from aiohttp import web

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.rooms.client.servers import Answerer, Script, answer, lost, page, problem, raw
from tests.rooms.client.test_messages import JOB
from tests.rooms.client.test_with_the_api import Site, site
from tests.rooms.commands.running import Output, Screen, run_command
from tests.rooms.commands.views import NOW, unit_view
from tests.rooms.kube.servers import serving
from tests.rooms.operations.cluster import INSTANCE, STOCK

pytestmark = pytest.mark.looptime

HOSTILE = "no\x1b[2J such\nname \u202e"
UNKNOWN_NAME = {"field": "name", "message": "is unknown"}
CREATE = "units create --name demo --spec g1.1 --image python:3.12"


def names_in(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


async def half(request: web.BaseRequest) -> web.StreamResponse:
    """Send half of the announced body, and end the connection."""
    response = web.StreamResponse(headers={"Content-Length": "9"})
    await response.prepare(request)
    await response.write(b"half")
    return await lost(request)


async def scripted(
    words: str, *answers: Answerer, is_screen: bool = True
) -> tuple[Output, Script]:
    script = Script(*answers)
    async with serving(script) as address:
        return await run_command(words, address, is_screen=is_screen), script


async def run_on(here: Site, words: str) -> Output:
    return await run_command(words, here.address)


@pytest.mark.parametrize(
    ("words", "given", "code"),
    [
        ("stock job one", answer(JOB), 0),
        ("stock job one", problem(404, "job_not_found"), 1),
        ("stock job one", raw(b"<html>", content_type="text/html"), 1),
        ("stock job one", lost, 3),
        ("stock job one", raw(b"", 502), 3),
        ("stock job one", problem(504, "timeout"), 3),
        ("stock wait one --timeout 5s", answer(JOB), 4),
        ("stock wait one", answer({**JOB, "error": "no room"}), 1),
        ("stock seed", answer(JOB), 2),
        ("stock job ..", answer(JOB), 2),
        ("stock job one --ca-file /nonexistent", answer(JOB), 2),
        ("stock job one --server http://127.0.0.1:1", answer(JOB), 3),
        ("stock job one --server nowhere", answer(JOB), 2),
        ("units create -f /nonexistent", answer(JOB), 2),
        ("invoke f --data hello", answer(JOB), 2),
    ],
)
async def test_the_exit_code_tells_the_outcome_and_one_line_the_reason(
    words: str, given: Answerer, code: int
) -> None:
    output, _ = await scripted(words, given, is_screen=False)
    assert output.code == code
    assert bool(output.out) == (code == 0)
    last = output.err.splitlines()[-1:]
    assert [each.startswith("gpuruntime ") for each in last] == [True] * (code != 0)


async def test_a_refused_connection_names_the_address_and_the_flag() -> None:
    output = await run_command("status", "http://127.0.0.1:9")
    assert output.err == (
        "gpuruntime status: http://127.0.0.1:9: refused; "
        "set the API's address by --server or GPURUNTIME_SERVER\n"
    )


async def test_a_missing_token_names_the_flag() -> None:
    output, _ = await scripted("status", problem(401, "unauthenticated"), is_screen=False)
    assert (output.code, "by --token-file or GPURUNTIME_TOKEN\n" in output.err) == (1, True)
    output, _ = await scripted("status", problem(403, "forbidden"), is_screen=False)
    assert (output.code, "--token-file" in output.err) == (1, False)


async def test_a_servers_text_never_controls_the_terminal() -> None:
    words = {"code": f"a{HOSTILE}", "message": HOSTILE, "details": []}
    refused, _ = await scripted("stock job x", raw(json.dumps({"error": words}).encode(), 409))
    assert refused.err.count("\n") == 1
    job = {**JOB, "objectName": HOSTILE, "error": HOSTILE}
    outputs = [
        await scripted(f"stock jobs -o {output}", page([job]))
        for output in ("table", "json", "yaml")
    ]
    shown = [refused, *(output for output, _ in outputs)]
    assert all(each.out.replace("\n", "").isprintable() for each in shown)
    assert all(each.err.replace("\n", "").isprintable() for each in shown)


async def test_a_log_is_escaped_on_a_terminal() -> None:
    output, script = await scripted(
        "units logs demo --tail 5 -c worker", raw(b"\x1b[31mred\n", content_type="text/plain")
    )
    assert output.out == "\\u001b[31mred\n"
    assert script.received[0].path == "/api/v1/gpu-units/demo/logs?tail=5&container=worker"


async def test_a_log_may_be_of_the_last_minutes_and_of_the_run_before() -> None:
    _, script = await scripted(
        "units logs demo --since 10m --previous --timestamps", raw(b"", content_type="text/plain")
    )
    (asked,) = script.received
    query = "sinceSeconds=600&previous=true&timestamps=true"
    assert asked.path == f"/api/v1/gpu-units/demo/logs?{query}"


async def test_an_error_names_the_fields_that_are_wrong() -> None:
    async with site() as here:
        output = await run_on(here, f"{CREATE} --port http:99999 --env 1=x")
        assert output.code == 1
        assert "template.ports[0].port: " in output.err
        assert "template.envs[0].name: " in output.err


async def test_a_full_flavour_is_answered_with_the_command_that_shows_others() -> None:
    async with site(stock=0) as here:
        output = await run_on(here, f"{CREATE} --operation one")
    assert output.code == 1
    assert output.err == (
        "gpuruntime units create: no ready stock of g1.1 is left: send operation one again "
        "later, or ask for a flavour that `gpuruntime flavours` shows as available "
        "(insufficient_capacity, 409)\n"
    )


async def test_a_unit_is_printed_as_table_json_and_yaml() -> None:
    async with site() as here:
        made = await run_on(here, f"{CREATE} --tenant blue -- python -m http.server")
        header, row = made.out.splitlines()
        assert (header.split()[0], row.split()[:2]) == ("NAME", ["demo", "g1.1"])
        read = json.loads((await run_on(here, "units get demo -o json")).out)
        assert (read["template"]["command"], read["tenant"]) == (["python"], "blue")
        assert read == yaml.safe_load((await run_on(here, "units get demo -o yaml")).out)
        shown = " ".join((await run_on(here, "units get demo")).out.split())
        assert "Command: python -m http.server" in shown
        assert "Operation: client-" in shown
        assert len(json.loads((await run_on(here, "units list -o json")).out)) == 1


@pytest.mark.parametrize("words", ["units create --spec g --image a", "invoke f"])
async def test_an_uncertain_outcome_names_the_id_for_a_retry(words: str) -> None:
    output, script = await scripted(words, problem(504, "timeout"), is_screen=False)
    (sent,) = {
        received.document.get("operationID") or received.document["invocationID"]
        for received in script.received
    }
    flag = "--operation" if "units" in words else "--id"
    assert output.err.endswith(f"it may have been done: send it again with {flag} {sent}\n")


async def test_a_body_may_be_any_json_without_duplicate_keys(tmp_path: Path) -> None:
    file = tmp_path / "unit.json"
    file.write_text(
        '{\n\t"name": "demo", "specName": "g1.1", "image": "a", '
        '"template": {"envs": [{"name": "A", "value": "\\ud83d\\ude00"}]}}'
    )
    async with site() as here:
        made = await run_on(here, f"units create -f {file} -o json")
        assert json.loads(made.out)["template"]["envs"][0]["value"] == "\U0001f600"
        file.write_text('{"name": "a", "name": "b"}')
        assert "the key 'name' occurs twice" in (await run_on(here, f"units create -f {file}")).err


async def test_a_repeated_creation_is_reported_as_done_before() -> None:
    pool = "pools create --operation two --name p2 --spec g2.1 --replicas 1 --cpu 1 --memory 1Gi"
    storage = "storages create --operation three --name s --size 1Gi"
    async with site() as here:
        for command in (pool, storage):
            output = [await run_on(here, command) for _ in range(2)]
            assert [each.code for each in output] == [0, 0], output
            assert ["was done before" in each.err for each in output] == [False, True]


def operations_by_name(here: Site) -> dict[str, str]:
    """Return what the commands made, of every kind: the operations by name."""
    kinds = ((GPU_UNITS, INSTANCE), (STOCK_POOLS, STOCK), (GPU_STORAGES, INSTANCE))
    found = (each["metadata"] for kind in kinds for each in here.cluster.objects(*kind))
    return {each["name"]: each["annotations"][labels.OPERATION_ID] for each in found}


CREATIONS = pytest.mark.parametrize(
    ("words", "name"),
    [
        ("units create --spec g1.1 --image a", "g1-1-o2jmhljv"),
        ("pools create --spec g2.1 --replicas 1", "g2-1-o2jmhljv"),
        ("stock seed --spec g2.1 --replicas 1", "g2-1-o2jmhljv"),
        ("storages create --size 1Gi", "storage-o2jmhljv"),
    ],
    ids=["unit", "pool", "seeding", "storage"],
)


@CREATIONS
async def test_what_has_no_name_is_named_by_its_spec_and_its_operation(
    words: str, name: str
) -> None:
    async with site() as here:
        outputs = [await run_on(here, f"{words} --operation one") for _ in range(2)]
        assert operations_by_name(here) == {name: "one"}
        assert ["was done before" in each.err for each in outputs] == [False, True]


@CREATIONS
async def test_an_operation_that_was_sent_without_a_name_is_found(words: str, name: str) -> None:
    async with site() as here:
        pool = {"operationID": "one", "specName": "g2.1", "replicas": 1}
        match words.split(maxsplit=1)[0]:
            case "units":
                unit = {"operationID": "one", "specName": "g1.1", "image": "a"}
                await here.client.units.create(unit)
            case "pools":
                await here.client.pools.create(pool)
            case "stock":
                await here.client.stock.seed(pool)
            case _:
                await here.client.storages.create({"operationID": "one", "size": "1Gi"})
        before = operations_by_name(here)
        output = await run_on(here, f"{words} --operation one")
        assert (output.code, "was done before" in output.err) == (0, True)
        assert operations_by_name(here) == before
        assert name not in before


@CREATIONS
async def test_a_name_of_another_operation_merges_nothing(words: str, name: str) -> None:
    async with site() as here:
        await run_on(here, f"{words} --operation other --name {name}")
        outputs = [await run_on(here, f"{words} --operation one") for _ in range(2)]
        assert [each.code for each in outputs] == [0, 0]
        assert ["was done before" in each.err for each in outputs] == [False, True]
        made = operations_by_name(here)
        assert made.pop(name) == "other"
        assert list(made.values()) == ["one"]


async def test_another_body_is_a_conflict_also_without_a_name() -> None:
    async with site() as here:
        words = "units create --operation one --image a --spec g1.1"
        await run_on(here, words)
        output = await run_on(here, f"{words} --tenant blue")
        assert (output.code, "operation_conflict" in output.err) == (1, True)
        assert len(here.cluster.units) == 1


async def test_an_api_that_takes_no_name_for_a_seeding_names_it_itself() -> None:
    error = {"code": "invalid_request", "message": "", "details": [UNKNOWN_NAME]}
    unknown = raw(json.dumps({"error": error}).encode(), 400)
    words = "stock seed --spec g1.1 --replicas 2"
    output, script = await scripted(words, unknown, answer(JOB, 202))
    first, second = (received.document for received in script.received)
    assert (output.code, first.pop("name") != "") == (0, True)
    assert first == second


async def test_a_unit_from_a_file_is_created_once_changed_and_deleted(
    tmp_path: Path,
) -> None:
    file = tmp_path / "unit.yaml"
    file.write_text("operationID: one\nspecName: g1.1\nimage: a\nname: demo\n")
    async with site() as here:
        for told_again in (False, True):
            output = await run_on(here, f"units create -f {file}")
            assert output.code == 0
            assert ("operation one was done before" in output.err) == told_again
        changed = await run_on(here, "units update demo --image b -o json")
        assert json.loads(changed.out)["image"] == "b"
        stale = await run_on(here, "units update demo --image c --if-match '\"old\"'")
        assert (stale.code, "precondition_failed" in stale.err) == (1, True)
        assert (await run_on(here, "units delete demo --wait")).err == "unit demo is deleted\n"


async def test_an_update_takes_the_flags_of_create_and_leaves_the_rest() -> None:
    async with site() as here:
        secrets = "--env-secret T=hub:token --file-secret /a=hub:token"
        await run_on(here, f"{CREATE} --env A=1 {secrets} --port http:80 -- python -m x")
        words = (
            "units update demo --env B=2 --pull-secret hub --mount weights:/models -o json -- sh"
        )
        await run_on(here, "storages create --name weights --size 1Gi")
        changed = json.loads((await run_on(here, words)).out)
        assert changed["template"] == {
            "command": ["sh"],
            "args": [],
            "envs": [{"name": "B", "value": "2", "secret": None}],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
            "files": [{"path": "/a", "secret": {"name": "hub", "key": "token"}}],
        }
        assert changed["imagePullSecrets"] == ["hub"]
        assert [each["name"] for each in changed["storageMounts"]] == ["weights"]
        assert changed["image"] == "python:3.12"


async def test_an_update_of_the_access_leaves_the_rest_of_it(tmp_path: Path) -> None:
    file = tmp_path / "id.pub"
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKci9OBcGqbtudG78/0LgfOcKeZfdh0rijGUOuQuqjDV"
    file.write_text(f"{key} me@home\n")
    async with site() as here:
        made = await run_on(here, f"{CREATE} --wake on --port http:80 -o json")
        assert json.loads(made.out)["access"]["wake"] is True
        changed = await run_on(here, f"units update demo --ssh-key {file} -o json")
        assert changed.code == 0, changed.err
        access = json.loads(changed.out)["access"]
        assert (access["wake"], access["sshKeys"]) == (True, [f"{key} me@home"])
        file.write_text(f'command="sh" {key}')
        refused = await run_on(here, f"units update demo --ssh-key {file}")
        assert (refused.code, "access.sshKeys[0]: must be one" in refused.err) == (1, True)


async def test_get_ends_with_the_latest_events_of_the_unit() -> None:
    event = {
        "type": "Warning",
        "reason": "BackOff",
        "message": "pulling again",
        "objectKind": "Pod",
        "objectName": "demo-1",
        "component": "kubelet",
        "count": 3,
        "firstSeenAt": None,
        "lastSeenAt": None,
    }
    answers = answer(unit_view("demo")), page([event])
    output, script = await scripted("units get demo", *answers)
    assert "pulling again" in output.out.splitlines()[-1]
    assert [each.path for each in script.received][1:] == [
        "/api/v1/gpu-units/demo/events?limit=10"
    ]
    _, script = await scripted("units get demo -o json", *answers)
    assert len(script.received) == 1


async def test_a_wait_shows_its_progress() -> None:
    async with site() as here, asyncio.TaskGroup() as tasks:
        wait = tasks.create_task(run_on(here, f"{CREATE} --wait"))
        await asyncio.sleep(5)
        here.set_status("demo", status="False", reason="PodUnschedulable", message="no room")
        await asyncio.sleep(5)
        here.set_status("demo")
        output = await wait
        assert (output.code, "Ready" in output.out) == (0, True)
        assert "demo: +0.00s accepted\n" in output.err
        assert "demo: PodUnschedulable: no room\n" in output.err


async def test_a_unit_whose_container_ends_at_once_is_not_called_ready() -> None:
    async with site() as here, asyncio.TaskGroup() as tasks:
        wait = tasks.create_task(run_on(here, f"{CREATE} --wait"))
        await asyncio.sleep(3)
        here.set_status("demo")
        await asyncio.sleep(3)
        words = "CrashLoopBackOff: no module named train"
        here.set_status("demo", status="False", reason="PodStartupFailed", message=words)
        output = await wait
    assert (output.code, output.out) == (1, "")
    assert output.err.endswith(f"unit demo: PodStartupFailed: {words}\n")


async def test_a_resumed_unit_does_not_replay_its_first_start() -> None:
    async with site() as here:
        await run_on(here, CREATE)
        here.set_status("demo")
        await asyncio.sleep(5)
        for verb in ("suspend", "resume"):
            output = await run_on(here, f"units {verb} demo --wait --timeout 1s")
            assert "accepted" not in output.err
        assert "+0.00s accepted" in (await run_on(here, "units wait demo")).err


async def test_a_wait_for_a_failed_unit_says_why() -> None:
    async with site() as here:
        await run_on(here, CREATE)
        words = "ImagePullBackOff: no such tag"
        here.set_status("demo", status="False", reason="PodStartupFailed", message=words)
        output = await run_on(here, "units wait demo")
        assert output.code == 1
        assert output.err.endswith(f"unit demo: PodStartupFailed: {words}\n")


async def test_a_deletion_of_several_goes_on_after_a_miss_and_ends_with_1() -> None:
    async with site() as here:
        await run_on(here, CREATE)
        output = await run_on(here, "units delete nobody demo")
        first, second = output.err.splitlines()
        assert (output.code, second) == (1, "unit demo is deleted")
        assert first.startswith("gpuruntime units delete: unit nobody does not exist")
    output, script = await scripted("dead-letters discard a b", problem(404, "not_found"))
    assert (output.code, len(script.received)) == (1, 2)
    output, script = await scripted("units delete a b", lost)
    assert (output.code, len(script.received)) == (3, 1)


async def test_a_watch_outlives_a_restart_and_misses_no_change() -> None:
    kept = unit_view("kept")
    later = NOW + timedelta(hours=1)
    changed, again = unit_view("kept", message="moved"), unit_view("again", createdAt=later)
    script = Script(
        page([unit_view("again"), unit_view("gone"), kept]),
        *[lost] * 9,
        problem(503, "service_unavailable"),
        page([again, changed]),
    )
    screen = Screen()
    async with serving(script) as address, asyncio.TaskGroup() as tasks:
        command = run_command("units list --watch", address, stream=screen)
        watching = tasks.create_task(command)
        await asyncio.sleep(600)
        assert not watching.done()
        watching.cancel()
    away, back, *news = screen.getvalue().splitlines()[4:]
    assert away.endswith("; watching for its return")
    assert back == "the server answers again"
    assert news[:2] == ["runtime-instance/again is gone", "runtime-instance/gone is gone"]
    assert [each.split()[0] for each in news[2:]] == ["again", "kept"]


async def test_a_watch_ends_when_the_server_refuses() -> None:
    answers = page([]), problem(401, "unauthenticated")
    output, _ = await scripted("pools list --watch", *answers, is_screen=False)
    assert (output.code, "unauthenticated" in output.err) == (1, True)


async def test_a_watch_prints_every_change() -> None:
    async with site() as here:
        await run_on(here, CREATE)
        async with asyncio.TaskGroup() as tasks:
            screen = Screen()
            watching = tasks.create_task(
                run_command("units list --watch", here.address, stream=screen)
            )
            await asyncio.sleep(5)
            here.set_status("demo")
            await asyncio.sleep(5)
            await here.client.units.delete("demo")
            await asyncio.sleep(5)
            watching.cancel()
        header, first, second, last = screen.getvalue().splitlines()
        assert header.startswith("NAME ")
        assert ("Progressing" in first, "Ready" in second) == (True, True)
        assert last == "runtime-instance/demo is gone"


async def test_invoke_prints_what_the_function_answered() -> None:
    ended = {
        "invocationID": "i",
        "serverlessRequestID": "f",
        "mode": "sync",
        "state": "succeeded",
        "position": None,
        "waitingFor": None,
        "series": 1,
        "attempt": 1,
        "workerName": "w",
        "statusCode": 200,
        "contentType": "application/json",
        "headers": {},
        "body": {"hello": "\x1b", "nothing": None},
        "error": None,
        "failureClass": None,
        "acceptedAt": "2026-01-01T00:00:00Z",
        "deadlineAt": "2026-01-01T01:00:00Z",
        "startedAt": None,
        "completedAt": None,
    }
    output, script = await scripted(
        "invoke f --data '{\"a\": 1}' --sync --life 90s --attempt 9s", answer(ended)
    )
    assert (output.code, json.loads(output.out)) == (0, ended["body"])
    sent = script.received[0].document
    assert (sent["payload"], sent["mode"]) == ({"a": 1}, "sync")
    assert (sent["timeoutSeconds"], sent["lifeSeconds"], sent["waitSeconds"]) == (9, 90, 2)
    error = {"type": "KeyError", "message": "x", "traceback": "Traceback…"}
    failed = {**ended, "state": "dead_lettered", "failureClass": "framework_error", "error": error}
    output, _ = await scripted("invoke f --sync", answer(failed))
    assert (output.code, "framework_error: x" in output.out) == (1, True)
    output, _ = await scripted("invocations wait f i", answer(failed))
    assert (output.code, "framework_error: x" in output.err) == (1, True)
    lack = {"reason": "insufficient_capacity", "message": "no ready stock of a10.1"}
    queued = {**ended, "state": "queued", "position": 3, "waitingFor": lack}
    waits = answer(queued, 202)
    output, script = await scripted("invoke f --id i --sync", waits, answer(ended))
    assert (output.code, json.loads(output.out)) == (0, ended["body"])
    words = "queued: insufficient_capacity: no ready stock of a10.1, 2 ahead of it"
    assert f"i: {words}" in output.err
    assert [each.method for each in script.received] == ["POST", "GET"]
    output, _ = await scripted("invoke f --id i --sync", waits, answer(failed))
    assert (output.code, "framework_error: x" in output.out) == (1, True)
    output, _ = await scripted("invoke f --id i --sync --timeout 2s", waits, answer(queued))
    assert (output.code, words in output.err) == (4, True)


async def test_a_broken_transfer_leaves_the_local_file_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "model.bin"
    target.write_bytes(b"before")
    fetch = f"storages files get w sub/model.bin {target}"
    output, script = await scripted(fetch, raw(b"\x00\x01", content_type="application/x"))
    assert (output.code, target.read_bytes(), output.err) == (
        0,
        b"\x00\x01",
        f"2 bytes in {target}\n",
    )
    assert script.received[0].path == "/api/v1/gpu-storages/w/files/sub/model.bin"

    output, _ = await scripted(fetch, half)
    assert (output.code, target.read_bytes()) == (3, b"\x00\x01")
    assert names_in(tmp_path) == ["model.bin"]

    output, script = await scripted(f"storages files put w {target} sub/", raw(b"", 201))
    assert (output.code, script.received[0].body) == (0, b"\x00\x01")
    assert script.received[0].path.endswith("/files/sub/model.bin")


@contextmanager
def interruptible() -> Iterator[None]:
    """Let started processes obey SIGINT, which the background jobs of a shell ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def job_asked(address: str, log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "gpuruntime", "stock", "job", "x", "--server", address]
    with interruptible():
        started = subprocess.Popen(command, stderr=log, stdout=log)
    with started:
        try:
            yield started
        finally:
            started.kill()


def test_control_c_ends_a_command_quietly(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log, socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        with job_asked(f"http://127.0.0.1:{server.getsockname()[1]}", log) as started:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(4)
                started.send_signal(signal.SIGINT)
                assert started.wait(20) == 130
    assert (tmp_path / "log").read_bytes() == b""
