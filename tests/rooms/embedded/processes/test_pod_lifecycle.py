"""Pods of several containers that run as processes: their order, folders and ends."""

import asyncio
import base64
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gpuruntime.embedded.kinds.cluster_objects import CLAIMS
from gpuruntime.embedded.kinds.pod_objects import PODS, Pod
from gpuruntime.embedded.processes.pod_lifecycle import REFRESH_SECONDS
from gpuruntime.kube.transport import Request
from gpuruntime.models.kinds.functions import Framework
from gpuruntime.models.kubernetes.secrets import SECRETS
from tests.eventually import eventually
from tests.rooms.embedded.processes.process_parts import SHARED, notes_in, programs, spec
from tests.rooms.embedded.world import World, running_cluster

SOCKET = f"{SHARED}/meeting.sock"
FOLDER = str(Path(Framework().socketPath).parent)
# Prints mode and content of the files in the given folder whenever they change.
SHOW = """
import os, sys, time
shown = {}
while True:
    for name in ("worker.yaml", "deep/raw"):
        path = os.path.join(sys.argv[1], name)
        says = oct(os.stat(path).st_mode)[-3:], open(path, "rb").read()
        if shown.get(name) != says:
            print(*says, flush=True)
        shown[name] = says
    time.sleep(0.05)
"""


def is_ready(pod: Pod) -> bool:
    return pod.is_ready


def number_of(pod: Pod, name: str) -> int:
    (number,) = re.findall(rf"(\d+) \({name}\)", pod.status.message)
    return int(number)


def log_of(world: World, pod: str, container: str, **more: str) -> bytes:
    path = PODS.path(namespace="default", name=pod, subresource="log")
    query = (("container", container), *more.items())
    return world.cluster.server.handle(Request(method="GET", path=path, query=query)).body


async def until_logged(world: World, words: bytes) -> None:
    await eventually(lambda: log_of(world, "p", "main"), lambda log: words in log)


async def until_noted(folder: Path, word: str) -> None:
    await eventually(lambda: notes_in(folder), lambda words: word in words)


async def test_a_sidecar_starts_first_and_ends_last(tmp_path: Path) -> None:
    async with running_cluster(programs=programs(tmp_path)) as world:
        await world.make(PODS, "p", spec=spec(tmp_path))
        await until_noted(tmp_path, "main started")
        pod = await world.until(PODS, "p", is_ready)
        (sidecar,) = pod.status.initContainerStatuses
        assert (sidecar.started, sidecar.ready) == (True, True)
        assert b"hello from main" in log_of(world, "p", "main")
        assert b"hello from sidecar" in log_of(world, "p", "sidecar")

        await world.delete(PODS, "p")
        await world.until_gone(PODS, "p")
    words = notes_in(tmp_path)
    assert words[:2] == ["sidecar started", "main started"]
    assert sorted(words[2:4]) == ["main signalled", "sidecar /drain"], (
        "the hook does not wait for the main container"
    )
    assert words[4:] == ["sidecar signalled"]


async def test_a_hook_may_call_another_container_of_its_pod(tmp_path: Path) -> None:
    """All containers of a Pod have one address."""
    given = spec(tmp_path, lifecycle={})
    hook = {"preStop": {"httpGet": {"path": "/drain", "port": 8081}}}
    given["containers"][0]["lifecycle"] = hook
    async with running_cluster(programs=programs(tmp_path)) as world:
        await world.make(PODS, "p", spec=given)
        await until_noted(tmp_path, "main started")
        await world.until(PODS, "p", is_ready)
        await world.delete(PODS, "p")
        await world.until_gone(PODS, "p")
    assert notes_in(tmp_path)[2:] == ["sidecar /drain", "main signalled", "sidecar signalled"]


async def test_each_pod_has_its_own_folder_for_the_same_path(tmp_path: Path) -> None:
    """The folder's path must also be short enough for sockets."""
    async with running_cluster(programs=programs(tmp_path)) as world:
        for name in ("p", "q"):
            await world.make(PODS, name, spec=spec(tmp_path, SOCKET))
        for name in ("p", "q"):
            await world.until(PODS, name, is_ready)
        lengths = await eventually(
            lambda: [w for w in notes_in(tmp_path) if "bound" in w], lambda found: len(found) >= 2
        )
    assert all(int(each.split()[2]) <= 60 for each in lengths)


async def test_a_function_reaches_its_worker_at_the_path_of_the_pod(tmp_path: Path) -> None:
    """The function gets no argument and serves at the path that any Pod would have."""
    given = spec(tmp_path)
    main = given["containers"][0]
    main["command"], main["args"] = ["python", "-m", "gpuruntime.framework.echo"], []
    for container in (main, given["initContainers"][0]):
        container["volumeMounts"] = [{"name": "shared", "mountPath": FOLDER}]
    async with running_cluster(programs=programs(tmp_path)) as world:
        await world.make(PODS, "p", spec=given)
        await world.until(PODS, "p", is_ready)
        await until_logged(world, b"serving on")
        place = log_of(world, "p", "main").decode().partition("serving on ")[2].split()[0]
        assert place.endswith("/0/0/framework.sock")
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_unix_connection(place)
            writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert b"200" in await reader.readline()
            writer.close()


async def test_a_killed_main_container_restarts_beside_its_sidecar(
    tmp_path: Path,
) -> None:
    async with running_cluster(programs=programs(tmp_path)) as world:
        await world.make(PODS, "p", spec=spec(tmp_path))
        pod = await world.until(PODS, "p", is_ready)
        await until_noted(tmp_path, "main started")
        os.kill(number_of(pod, "main"), signal.SIGKILL)
        pod = await world.until(PODS, "p", lambda pod: pod.restarts == 1 and pod.is_ready)
        (main,) = pod.status.containerStatuses
        assert main.lastState.terminated
        assert main.lastState.terminated.exitCode == 128 + signal.SIGKILL
        (sidecar,) = pod.status.initContainerStatuses
        assert sidecar.restartCount == 0
        assert b"hello from main" in log_of(world, "p", "main", previous="true")
    assert notes_in(tmp_path).count("sidecar started") == 1


async def test_a_sidecar_that_does_not_start_holds_back_the_others(tmp_path: Path) -> None:
    probe = {"httpGet": {"path": "/", "port": 8081}, "periodSeconds": 1, "failureThreshold": 1}
    slow = {"args": ["sidecar", str(tmp_path / "ledger"), "crash"], "startupProbe": probe}
    async with running_cluster(programs=programs(tmp_path)) as world:
        await world.make(PODS, "p", spec=spec(tmp_path, **slow))

        def has_failed(pod: Pod) -> bool:
            waits = [each.state.waiting for each in pod.status.initContainerStatuses]
            return any(each and each.reason == "CrashLoopBackOff" for each in waits)

        pod = await world.until(PODS, "p", has_failed)
        (sidecar,) = pod.status.initContainerStatuses
        assert sidecar.lastState.terminated
        assert "no luck" in sidecar.lastState.terminated.message
        assert pod.status.phase == "Pending"
    assert "main started" not in notes_in(tmp_path)


async def test_a_process_that_outlives_its_grace_period_is_killed(tmp_path: Path) -> None:
    async with running_cluster(programs=programs(tmp_path)) as world:
        await world.make(PODS, "p", spec=spec(tmp_path, "stubborn"))
        await until_noted(tmp_path, "main started")
        pod = await world.until(PODS, "p", is_ready)
        number = number_of(pod, "main")
        await world.delete(PODS, "p", grace_seconds=1)
        await world.until_gone(PODS, "p")
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
    assert "main signalled" in notes_in(tmp_path)


async def test_a_secret_becomes_files_with_its_modes_and_the_real_paths(tmp_path: Path) -> None:
    text = f"socketPath: {SOCKET}\nother: /tmp/sharedfile\n"
    data = {"worker.yaml": base64.b64encode(text.encode()).decode(), "raw": "/wA="}
    mount = {"name": "secret", "mountPath": "/etc/worker"}
    source = {
        "secretName": "s",
        "defaultMode": 0o440,
        "items": [
            {"key": "worker.yaml", "path": "worker.yaml"},
            {"key": "raw", "path": "deep/raw", "mode": 0o400},
        ],
    }
    given: dict[str, Any] = spec(tmp_path)
    given["volumes"].append({"name": "secret", "secret": source})
    main = given["containers"][0]
    main["volumeMounts"] = [*main["volumeMounts"], mount]
    main["command"] = ["python", "-c", SHOW]
    main["args"] = ["/etc/worker"]
    async with running_cluster(programs=programs(tmp_path)) as world:
        await world.make(PODS, "p", spec=given)
        pod = await world.until(
            PODS, "p", lambda pod: 'secret "s" not found' in pod.status.message
        )
        assert pod.status.phase == "Pending"
        await world.make(SECRETS, "s", data=data)
        await world.until(PODS, "p", is_ready)
        await until_logged(world, b"xff")
        await world.patch(SECRETS, "s", data={"raw": "YWJj"})
        await until_logged(world, b"abc")
        log = log_of(world, "p", "main")
    worker, raw, *changed = log.decode().splitlines()
    assert changed == ["400 b'abc'"]
    assert worker.startswith("440 ")
    assert re.search(r"socketPath: /\S+/0/0/meeting\.sock", worker)
    assert "other: /tmp/sharedfile" in worker
    assert raw == r"400 b'\xff\x00'"


async def test_a_command_without_an_interpreter_is_an_error_that_names_the_interpreters(
    tmp_path: Path,
) -> None:
    given = spec(tmp_path)
    given["containers"][0]["command"] = ["/bin/serve"]
    async with running_cluster(programs=programs(tmp_path)) as world:
        await world.make(PODS, "p", spec=given)
        pod = await world.until(PODS, "p", lambda pod: "begins with python" in str(pod.status))
        (main,) = pod.status.containerStatuses
        assert main.state.waiting
        assert main.state.waiting.reason == "CreateContainerConfigError"
    assert notes_in(tmp_path) == []


PRINT = """
import os, sys, time
print(os.environ["TOKEN"], open(sys.argv[1]).read(), flush=True)
time.sleep(60)
"""


def using_secrets(folder: Path) -> dict[str, Any]:
    """Return a Pod with a variable of one Secret and a file of another."""
    given = spec(folder)
    items = [{"key": "tls.key", "path": "tls.key"}]
    source = {"secretName": "tls", "items": items}
    given["volumes"].append({"name": "tls", "secret": source})
    main = given["containers"][0]
    main["command"] = ["python", "-c", PRINT]
    main["args"] = ["/etc/tls/key"]
    main["env"] = [
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    ]
    mount = {"name": "tls", "mountPath": "/etc/tls/key", "subPath": "tls.key", "readOnly": True}
    main["volumeMounts"] = [*main["volumeMounts"], mount]
    return given


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def test_a_process_gets_variables_and_files_of_secrets_once_they_exist(
    tmp_path: Path,
) -> None:
    def waits(pod: Pod) -> str:
        waiting = [each.state.waiting for each in pod.status.containerStatuses]
        return "".join(f"{each.reason}: {each.message}" for each in waiting if each)

    async with running_cluster(programs=programs(tmp_path)) as world:
        await world.make(PODS, "p", spec=using_secrets(tmp_path))
        pod = await world.until(PODS, "p", lambda pod: "not found" in pod.status.message)
        assert pod.status.message == (
            'MountVolume.SetUp failed for volume "tls" : secret "tls" not found'
        )
        prepared = pod.condition("PodReadyToStartContainers")
        assert prepared
        assert not prepared.is_true
        await world.make(SECRETS, "tls", data={"other": coded("x")})
        await world.until(
            PODS, "p", lambda pod: "non-existent secret key: tls.key" in pod.status.message
        )
        await world.patch(SECRETS, "tls", data={"tls.key": coded("a key")})
        missing = 'CreateContainerConfigError: secret "hub" not found'
        await world.until(PODS, "p", lambda pod: waits(pod) == missing)
        await world.make(SECRETS, "hub", data={"other": coded("x")})
        without_key = "couldn't find key token in Secret default/hub"
        await world.until(PODS, "p", lambda pod: without_key in waits(pod))
        await world.patch(SECRETS, "hub", data={"token": coded("a token")})
        await until_logged(world, b"a token a key")


async def test_a_pod_that_waits_for_a_secret_can_be_deleted(tmp_path: Path) -> None:
    async with running_cluster(programs=programs(tmp_path)) as world:
        await world.make(SECRETS, "tls", data={"tls.key": coded("a key")})
        await world.make(PODS, "p", spec=using_secrets(tmp_path))
        await world.until(PODS, "p", lambda pod: "CreateContainerConfigError" in str(pod.status))
        await world.delete(PODS, "p")
        await world.until_gone(PODS, "p")
    assert "main started" not in notes_in(tmp_path)


async def test_a_variable_with_nul_fails_its_container_and_no_other(tmp_path: Path) -> None:
    given = spec(tmp_path)
    given["containers"][0]["env"] = [
        {"name": "BINARY", "valueFrom": {"secretKeyRef": {"name": "binary", "key": "key"}}}
    ]
    async with running_cluster(programs=programs(tmp_path)) as world:
        await world.make(SECRETS, "binary", data={"key": coded("\0")})
        await world.make(PODS, "p", spec=given)
        pod = await world.until(PODS, "p", lambda pod: "cannot be started" in str(pod.status))
        end = pod.status.containerStatuses[0].lastState.terminated
        assert end
        assert "a variable cannot be given to a process: embedded null" in end.message
        await world.until(PODS, "p", lambda pod: pod.status.initContainerStatuses[0].ready)


ITEMS = [{"key": "worker.yaml", "path": "worker.yaml"}, {"key": "raw", "path": "deep/raw"}]


async def using_a_claim(world: World, folder: Path) -> dict[str, Any]:
    """Create a claim and a Secret; return the spec of a Pod that mounts both."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await world.make(CLAIMS, "data", spec=claim)
    await world.make(SECRETS, "s", data={"worker.yaml": coded("first"), "raw": coded("x")})
    given = spec(folder)
    given["volumes"] += [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "secret", "secret": {"secretName": "s", "items": ITEMS}},
    ]
    main = given["containers"][0]
    main["command"], main["args"] = ["python", "-c", SHOW], ["/etc/worker"]
    main["volumeMounts"] = [
        {"name": "data", "mountPath": "/data", "subPath": "below"},
        {"name": "secret", "mountPath": "/etc/worker"},
    ]
    return given


@pytest.mark.parametrize("blocked", ["volumes", "volumes/*", "volumes/*/below"])
async def test_a_pod_whose_folders_cannot_be_created_waits_and_says_why(
    tmp_path: Path, blocked: str
) -> None:
    """A file in the place of a folder fails like a full disk, and the next attempt as well."""
    root = tmp_path / "volumes"
    async with running_cluster(programs=programs(tmp_path), volumes_root=str(root)) as world:
        given = await using_a_claim(world, tmp_path)
        claim = await world.get(CLAIMS, "data")
        file = tmp_path / blocked.replace("*", f"pvc-{claim.metadata.uid}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        await world.make(PODS, "p", spec=given)
        pod = await world.until(PODS, "p", lambda pod: "cannot be written" in pod.status.message)
        assert pod.status.phase == "Pending"
        file.unlink()
        await world.until(PODS, "p", is_ready)


async def test_files_that_cannot_be_refreshed_are_logged_once_and_retried(tmp_path: Path) -> None:
    root = tmp_path / "volumes"
    async with running_cluster(programs=programs(tmp_path), volumes_root=str(root)) as world:
        await world.make(PODS, "p", spec=await using_a_claim(world, tmp_path))
        await world.until(PODS, "p", is_ready)
        await until_logged(world, b"first")
        with capture_logs() as logs:
            moved = root.rename(tmp_path / "moved")
            root.touch()
            await world.patch(SECRETS, "s", data={"worker.yaml": coded("second")})
            await asyncio.sleep(2.5 * REFRESH_SECONDS)
            assert b"second" not in log_of(world, "p", "main")
            root.unlink()
            moved.rename(root)
            await until_logged(world, b"second")
    told = [each for each in logs if each["event"] == "volumes not refreshed"]
    assert [each["pod"] for each in told] == ["default/p"]
    assert "cannot be written" in told[0]["reason"]


LISTED = """
import os, sys, time
for name in sorted(os.listdir(sys.argv[1])):
    print(name, open(os.path.join(sys.argv[1], name)).read(), flush=True)
time.sleep(60)
"""


async def test_keys_that_differ_in_a_leading_dot_become_two_files(tmp_path: Path) -> None:
    keys = [".env", "env", ".new"]
    given = spec(tmp_path)
    given["volumes"].append({"name": "secret", "secret": {"secretName": "s"}})
    main = given["containers"][0]
    main["command"], main["args"] = ["python", "-c", LISTED], ["/etc/secret"]
    main["volumeMounts"] = [{"name": "secret", "mountPath": "/etc/secret"}]
    async with running_cluster(programs=programs(tmp_path)) as world:
        await world.make(SECRETS, "s", data={key: coded(f"of {key}") for key in keys})
        await world.make(PODS, "p", spec=given)
        await until_logged(world, b"env of env")
        log = log_of(world, "p", "main").decode()
    assert log.splitlines() == [f"{key} of {key}" for key in sorted(keys)]
