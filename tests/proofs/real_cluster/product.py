"""The product as processes on a control plane, each role under its own service account.

An installation is created from the manifests. It can have its own namespaces, so that several
installations share one control plane.
"""

import base64
import json
import os
import secrets
import signal
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import attrs
import yaml

from tests.eventually import equals, eventually_blocking
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.processes import Keeper, tail_of
from tests.rooms.manifests.overlays import MANIFESTS, sources

T = TypeVar("T")

POLL_SECONDS = 0.05
WAIT_SECONDS = 60.0
NOWHERE = Path("/nonexistent")
GATEWAY_URL = "http://*.units.example.com"
OF_REPLICA = {
    "listen": "127.0.0.1:0",
    "activityListen": "127.0.0.1:0",
    "time": {"connect": "1s", "head": "2s"},
}
# These cluster-wide kinds name accounts in one installation's namespaces.
OF_ACCOUNTS = ("ClusterRole", "ValidatingAdmissionPolicy")
# This policy would refuse the objects of every other installation in the same cluster.
OF_ONE_INSTALLATION = ("gpuruntime-namespaces",)
# The kinds of the manifests that processes need as Pods do.
ACCESS = frozenset({"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"})
INSTALLED_KINDS = {
    "base": ACCESS
    | {
        *("Namespace", "ResourceQuota", "LimitRange", "PriorityClass", "NetworkPolicy"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    },
    "serverless": ACCESS,
    "gateway": ACCESS,
}


class ProcessError(Exception):
    """A process ended too early; the message carries the tail of its log."""


@attrs.frozen
class Answer:
    status: int
    headers: dict[str, str]
    document: Any

    @property
    def data(self) -> Any:
        return self.document["data"]

    @property
    def code(self) -> str:
        return str(self.document["error"]["code"])


class Process:
    """A role that runs as a process."""

    def __init__(self, keeper: Keeper, name: str, log: Path, argv: list[str]) -> None:
        self.name = name
        self.log = log
        self._keeper = keeper
        self.pid = keeper.start(name, argv, log)

    @property
    def operations(self) -> str:
        """Return the address of the operations listener, once the role listens there."""
        return str(self.said("operations listening")["address"])

    @property
    def address(self) -> str:
        return str(self.said("listening")["address"])

    @property
    def has_ended(self) -> bool:
        return self._keeper.poll(self.name) is not None

    def kill(self) -> None:
        """Kill the process at once, as a crash would."""
        self._keeper.kill(self.name)

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.exit_code()

    def exit_code(self) -> int:
        code = eventually_blocking(
            lambda: self._keeper.poll(self.name), lambda code: code is not None
        )
        assert code is not None
        return code

    def said(self, event: str) -> dict[str, Any]:
        """Return the last log line with this event, once one exists."""
        lines = eventually_blocking(lambda: self._lines(event), explain=lambda: self._why(event))
        return lines[-1]

    def wait_until_ready(self) -> None:
        url = f"{self.operations}/readyz"
        eventually_blocking(lambda: request("GET", url).status, equals(200), explain=self.tail)

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum over all series that have these labels."""
        with urllib.request.urlopen(f"{self.operations}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        wanted = {f'{label}="{value}"' for label, value in labels.items()}
        return sum(
            float(value)
            for series, _, value in (line.rpartition(" ") for line in lines)
            if series.partition("{")[0] == name
            and wanted <= set(series.partition("{")[2].rstrip("}").split(","))
        )

    def tail(self) -> str:
        return tail_of(self.log)

    def _lines(self, event: str) -> list[dict[str, Any]]:
        if self.has_ended:
            raise ProcessError(f"{self.name} ended; the end of its log:\n{self.tail()}")
        lines = self.log.read_text().splitlines(keepends=True)
        whole = (line for line in lines if line.startswith("{") and line.endswith("}\n"))
        documents = (json.loads(line) for line in whole)
        return [one for one in documents if one.get("event") == event]

    def _why(self, event: str) -> str:
        return f"{self.name} never said {event!r}; the end of its log:\n{self.tail()}"


class Installation:
    """The objects of the manifests under one name, and the processes that run on them."""

    def __init__(self, plane: ControlPlane, keeper: Keeper, folder: Path, name: str) -> None:
        self.plane = plane
        self.name = name
        self.stock = f"{name}-stock"
        self.instance = f"{name}-instance"
        self.system = f"{name}-system"
        self._keeper = keeper
        self._folder = folder
        self._count = 0

    def apply(self) -> None:
        """Apply the manifests; applying them twice changes nothing."""
        self.plane.kubectl("apply", "-k", str(MANIFESTS / "crds"))
        self.plane.kubectl(
            "wait",
            "--for=condition=Established",
            "crd/gpuunits.runtime.lokiwager.io",
            "crd/stockpools.runtime.lokiwager.io",
            "crd/gpustorages.runtime.lokiwager.io",
        )
        documents = "---\n".join(yaml.safe_dump(each) for each in self.documents())
        self.plane.kubectl("apply", "-f", "-", stdin=documents)

    def manager(
        self, *, server: str = "", program: str = "gpuruntime", **settings: Any
    ) -> Process:
        """Start a manager; `program` is the module to run."""
        return self._start("manager", server, settings, program)

    def api(self, *, server: str = "", **settings: Any) -> Process:
        return self._start("api", server, {"listen": "127.0.0.1:0", **settings})

    def activator(self, *, server: str = "", **settings: Any) -> Process:
        return self._start("activator", server, settings)

    def gateway(self, *, server: str = "", **settings: Any) -> Process:
        """Start a gateway; `reach` configures the other roles for it."""
        return self._start(
            "gateway", server, {"gateway": {**self.reach, **OF_REPLICA}, **settings}
        )

    @property
    def reach(self) -> dict[str, Any]:
        """Return the gateway's address and the keys of tickets, for the roles that share them."""
        keys = self._folder / "tickets.yaml"
        if not keys.exists():
            secret = base64.b64encode(secrets.token_bytes(32)).decode()
            keys.write_text(yaml.safe_dump({"keys": [{"id": "first", "secret": secret}]}))
        return {"publicURL": GATEWAY_URL, "keyFile": str(keys)}

    def kubeconfig(self, role: str, server: str = "") -> Path:
        """Write a kubeconfig for the role's account; `server` may be a proxy before the API
        server.
        """
        cluster: dict[str, str] = {"server": server or self.plane.url}
        if not server or server.startswith("https"):
            cluster["certificate-authority"] = str(self.plane.certificate)
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": role,
            "clusters": [{"name": role, "cluster": cluster}],
            "users": [{"name": role, "user": {"token": self._token(role)}}],
            "contexts": [{"name": role, "context": {"cluster": role, "user": role}}],
        }
        path = self._folder / f"{role}-{secrets.token_hex(4)}.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return path

    def objects(self, kind: str, namespace: str) -> list[dict[str, Any]]:
        """Return the current objects of the API server; `kind` is a plural such as `gpuunits`."""
        found = json.loads(self.plane.kubectl("get", kind, "-n", namespace, "-o", "json"))
        items: list[dict[str, Any]] = found["items"]
        return items

    def _start(
        self, role: str, server: str, settings: dict[str, Any], program: str = "gpuruntime"
    ) -> Process:
        self._count += 1
        name = f"{self.name}-{role}-{self._count}"
        document = {
            "operations": {"listen": "127.0.0.1:0"},
            "namespaces": {
                "stock": self.stock,
                "instance": self.instance,
                "system": self.system,
            },
            "kubernetes": {"kubeconfig": str(self.kubeconfig(role, server))},
            "leaderElection": {"enabled": True},
            **settings,
        }
        config = self._folder / f"{name}.yaml"
        config.write_text(yaml.safe_dump(document))
        argv = [sys.executable, "-m", program, role, "--config", str(config)]
        return Process(self._keeper, name, self._folder / f"{name}.log", argv)

    def _token(self, role: str) -> str:
        path = f"/api/v1/namespaces/{self.system}/serviceaccounts/gpuruntime-{role}/token"
        answer = self.plane.request("POST", path, {"spec": {"expirationSeconds": 7200}})
        return str(answer["status"]["token"])

    def documents(self) -> Iterator[Any]:
        """Yield the documents under this installation's names.

        Installations share cluster-wide objects, except those that name accounts of one
        installation.
        """
        yield from map(self.renamed, installed_documents())

    def renamed(self, document: Any) -> Any:
        """Return a document of the manifests as this installation has it."""
        text = json.dumps(document).replace('"runtime-', f'"{self.name}-')
        renamed = json.loads(text.replace(":runtime-", f":{self.name}-"))
        if renamed["kind"].startswith(OF_ACCOUNTS):
            renamed["metadata"]["name"] += f"-{self.name}"
        if renamed["kind"] == "ClusterRoleBinding":
            renamed["roleRef"]["name"] += f"-{self.name}"
        if renamed["kind"] == "ValidatingAdmissionPolicyBinding":
            renamed["spec"]["policyName"] += f"-{self.name}"
        return renamed


class Caller:
    """A blocking caller of one api replica."""

    def __init__(
        self, address: str, *, send: Callable[[str, str, object], Answer] | None = None
    ) -> None:
        self._root = f"{address}/api/v1"
        self._send = send or request

    def get(self, path: str) -> Answer:
        return self._send("GET", self._root + path, None)

    def post(self, path: str, body: object) -> Answer:
        return self._send("POST", self._root + path, body)

    def put(self, path: str, body: object) -> Answer:
        return self._send("PUT", self._root + path, body)

    def delete(self, path: str) -> Answer:
        return self._send("DELETE", self._root + path, None)

    def until(
        self, path: str, holds: Callable[[Any], bool], *, seconds: float = WAIT_SECONDS
    ) -> Any:
        """Return the data of the first answer for which the predicate holds."""
        answer = eventually_blocking(
            lambda: self.get(path),
            lambda answer: answer.status == 200 and holds(answer.data),
            within_seconds=seconds,
        )
        return answer.data


@contextmanager
def installation(plane: ControlPlane, logs: Path, name: str = "runtime") -> Iterator[Installation]:
    """Yield an installation; its processes end with the block, its objects stay."""
    keeper = Keeper(Path(tempfile.mkdtemp(prefix="gpuruntime-product-")), NOWHERE)
    try:
        made = Installation(plane, keeper, logs, name)
        made.apply()
        yield made
    finally:
        keeper.close()


@cache
def installed_documents() -> tuple[Any, ...]:
    return tuple(
        document
        for folder, kinds in INSTALLED_KINDS.items()
        for document in sources(folder)
        if document["kind"] in kinds and document["metadata"]["name"] not in OF_ONE_INSTALLATION
    )


def request(method: str, url: str, body: object = None, *, token: str = "") -> Answer:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    asked = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return _answer(answer.status, answer.headers.items(), answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return _answer(error.code, error.headers.items(), error.read())


def _answer(status: int, headers: Iterable[tuple[str, str]], body: bytes) -> Answer:
    document: Any = None
    if body.startswith((b"{", b"[")):
        document = json.loads(body)
    return Answer(status, {name.lower(): value for name, value in headers}, document or body)
