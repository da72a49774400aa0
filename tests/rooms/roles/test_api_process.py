"""The program `gpuruntime api`: its start, its behaviour without a cluster, and its stop."""

import hashlib
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.eventually import equals, eventually_blocking
from tests.proofs.real_cluster.processes import reserved_port
from tests.proofs.real_cluster.product import Answer, Caller, Process, request
from tests.rooms.roles.programs import Programs, printed, programs

DEAD = "http://127.0.0.1:1"
HEALTH = b"GET /api/v1/health HTTP/1.1\r\nHost: here\r\n\r\n"


def kubeconfig(path: Path, server: str) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def health(api: Process) -> dict[str, Any]:
    answer = Caller(api.address).get("/health")
    assert answer.status == 200
    view: dict[str, Any] = answer.data
    return view


def readiness(api: Process) -> Answer:
    return request("GET", f"{api.operations}/readyz")


def assert_refused(api: Process, words: str) -> None:
    caller = Caller(api.address)
    for answer in (caller.get("/gpu-units"), caller.delete("/gpu-units/a")):
        assert (answer.status, answer.code) == (503, "service_unavailable")
        assert words in answer.document["error"]["message"]
        assert int(answer.headers["retry-after"]) >= 1


def connection(api: Process) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(api.address.rpartition(":")[2])))


def half_a_request(api: Process) -> socket.socket:
    """Send half of a request, so that it stays in progress."""
    caller = connection(api)
    caller.sendall(
        b"POST /api/v1/gpu-units HTTP/1.1\r\nHost: here\r\nExpect: 100-continue\r\n"
        b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n"
    )
    assert b"100 Continue" in caller.recv(4096)
    caller.sendall(b"{")
    return caller


def test_an_api_with_kubernetes_off_is_ready_at_once_and_never_connects(program: Programs) -> None:
    api = program.start("api", "--kube-mode", "off", "--kubeconfig", "/nowhere")
    assert readiness(api).status == 200
    view = health(api)
    assert (view["status"], view["kubernetesConnected"], view["kubernetesError"]) == (
        "ok",
        False,
        "",
    )
    assert_refused(api, "kubernetes is off here")


def test_an_api_without_a_cluster_starts_reports_why_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".kube" / "config"
    with programs(tmp_path) as program:
        server = yaml.safe_load(program.cluster().read_text())["clusters"][0]["cluster"]["server"]
        api = program.start("api")
        view = eventually_blocking(lambda: health(api), lambda view: bool(view["kubernetesError"]))
        assert view["status"] == "degraded"
        assert "~/.kube/config: no such file" in view["kubernetesError"]
        assert not view["kubernetesConnected"]
        assert not view["cacheSynced"]
        assert readiness(api).status == 503
        assert_refused(api, "the cluster cannot be reached")

        path.parent.mkdir()
        kubeconfig(path, server)
        view = eventually_blocking(lambda: health(api), lambda view: view["status"] == "ok")
        assert view["kubernetesConnected"]
        assert view["cacheSynced"]
        assert view["kubernetesError"] == ""
        assert readiness(api).status == 200
        assert Caller(api.address).get("/gpu-units").data == []


def test_an_api_that_loses_its_cluster_stays_ready_and_reports_it(program: Programs) -> None:
    cluster = program.start("dev", "--only", "cluster")
    api = program.start("api", "--kubeconfig", printed(cluster, "kubeconfig"))
    api.wait_until_ready()
    cluster.kill()
    view = eventually_blocking(lambda: health(api), lambda view: not view["kubernetesConnected"])
    assert view["status"] == "degraded"
    assert view["kubernetesError"]
    assert view["cacheSynced"], "what was read last still stands"
    assert readiness(api).status == 200
    assert_refused(api, "the cluster cannot be reached")


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"surprise": 1}, 2, "surprise: unknown field"),
        ({"listen": "0.0.0.0:0"}, 2, "auth.allowUnauthenticated: true if that is intended"),
        (
            {"auth": {"mode": "kubernetes"}, "kubernetes": {"mode": "off"}},
            2,
            "auth.mode: kubernetes needs the cluster, but kubernetes.mode is off",
        ),
        ({"auth": {"mode": "token"}}, 2, "auth.tokenFile: is empty: mode token needs one"),
        (
            {"auth": {"mode": "token", "tokenFile": "/nowhere"}},
            2,
            "token file /nowhere: No such file",
        ),
        ({"kubernetes": {"kubeconfig": "/nowhere"}}, 2, "kubeconfig /nowhere: no such file"),
        (
            {"tls": {"certificateFile": "/nowhere", "keyFile": "/nowhere"}},
            2,
            "tls: /nowhere: No such file",
        ),
        ({"kubernetes": {"mode": "required"}}, 3, "the cluster is required"),
    ],
    ids=[
        "unknown key",
        "open listener",
        "authentication without a cluster",
        "token mode without a file",
        "missing token file",
        "missing kubeconfig",
        "missing certificate",
        "required cluster",
    ],
)
def test_a_start_that_cannot_succeed_is_one_line_and_an_exit_code(
    program: Programs, settings: dict[str, Any], code: int, words: str
) -> None:
    dead = kubeconfig(program.folder / "dead", DEAD)
    given = {"kubernetes": {}, **settings}
    given["kubernetes"] = {"kubeconfig": dead, **given["kubernetes"]}
    api = program.start("api", **given)
    assert api.exit_code() == code
    (line,) = api.log.read_text().splitlines()
    assert words in line


def test_a_port_in_use_is_one_line_and_exit_code_2(program: Programs) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = f"127.0.0.1:{holder.getsockname()[1]}"
        api = program.start("api", "--kube-mode", "off", listen=taken)
        assert api.exit_code() == 2
    assert f"listen: {taken} is in use" in api.tail()
    assert "Traceback" not in api.log.read_text()


def test_unauthenticated_callers_are_served_only_if_that_is_configured(program: Programs) -> None:
    with reserved_port() as port:
        pass
    api = program.start(
        "api",
        *("--kube-mode", "off", "--listen", f":{port}"),
        auth={"allowUnauthenticated": True},
    )
    assert api.address.endswith(f":{port}")
    socket.create_connection(("127.0.0.2", port)).close()


def test_callers_are_authenticated_and_a_new_token_file_takes_effect(
    program: Programs,
) -> None:
    tokens = program.folder / "tokens.yaml"
    tokens.write_text(_tokens("first"))
    api = program.start(
        "api", "--kube-mode", "off", auth={"mode": "token", "tokenFile": str(tokens)}
    )
    health(api)
    assert _status(api, "first") == 503, "known, and there is no cluster"
    assert (_status(api, ""), _status(api, "second")) == (401, 401)
    tokens.write_text(_tokens("second"))
    eventually_blocking(lambda: _status(api, "second"), equals(503))
    assert _status(api, "first") == 401


def _tokens(token: str) -> str:
    digest = hashlib.sha256(token.encode()).hexdigest()
    return yaml.safe_dump({"tokens": [{"name": "ci", "role": "operator", "sha256": digest}]})


def _status(api: Process, token: str) -> int:
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    with connection(api) as caller:
        caller.sendall(f"GET /api/v1/gpu-units HTTP/1.1\r\nHost: here\r\n{bearer}\r\n".encode())
        return int(caller.recv(4096).split()[1])


def test_sigterm_lets_requests_in_progress_end_and_rejects_new_ones(program: Programs) -> None:
    cluster = program.start("dev", "--only", "cluster")
    api = program.start("api", "--kubeconfig", printed(cluster, "kubeconfig"))
    api.wait_until_ready()
    with connection(api) as idle, connection(api) as busy:
        idle.sendall(HEALTH)
        assert b"200 OK" in idle.recv(4096)
        os.kill(cluster.pid, signal.SIGSTOP)
        busy.sendall(HEALTH.replace(b"health", b"gpu-units/nobody"))
        eventually_blocking(lambda: health(api)["status"], equals("ok"))
        os.kill(api.pid, signal.SIGTERM)
        eventually_blocking(lambda: readiness(api), lambda answer: answer.status == 503)
        with pytest.raises(ConnectionRefusedError):
            connection(api)
        assert idle.recv(4096) == b"", "nobody waits for who asks nothing"
        os.kill(cluster.pid, signal.SIGCONT)
        assert b"HTTP/1.1 404 " in busy.recv(4096)
        assert api.exit_code() == 0
    assert "Traceback" not in api.log.read_text()


def test_a_request_that_never_ends_is_cut_by_the_grace(program: Programs) -> None:
    api = program.start("api", "--kube-mode", "off", shutdownGrace="1s")
    with half_a_request(api):
        os.kill(api.pid, signal.SIGTERM)
        assert api.exit_code() == 0
    assert "Traceback" not in api.log.read_text()


def test_a_second_signal_ends_the_api_at_once(program: Programs) -> None:
    api = program.start("api", "--kube-mode", "off")
    with half_a_request(api):
        os.kill(api.pid, signal.SIGTERM)
        eventually_blocking(lambda: readiness(api), lambda answer: answer.status == 503)
        os.kill(api.pid, signal.SIGTERM)
        assert api.exit_code() == 128 + signal.SIGTERM
