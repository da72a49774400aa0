"""A world: one installation of the product whose processes are killed and restarted.

Many worlds share one control plane. Each has its own namespaces, so that all wait for leases and
request deadlines at the same time. A process sends its requests through a proxy that outlives it.
"""

import asyncio
import json
import os
import signal
import ssl
import tempfile
import time
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, Final, TextIO, TypeVar

from gpuruntime.models.kinds.pools import STOCK_POOLS
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.auditing import audited, told
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_cluster.processes import Keeper
from tests.proofs.real_cluster.product import (
    NOWHERE,
    Answer,
    Installation,
    Process,
    ProcessError,
    request,
)
from tests.proofs.real_cluster.proxy import Fault, Proxy, proxy

T = TypeVar("T")

# Short, so that a killed leader is soon replaced, but long enough for a busy machine.
LEASE_SECONDS: Final = 6.0
SETTINGS: Final[dict[str, Any]] = {
    "leaderElection": {
        "enabled": True,
        "leaseDuration": LEASE_SECONDS,
        "renewDeadline": 5.0,
        "retryPeriod": 0.5,
    },
}
# A write lands this late: the next leader reconciles by then, and the caller's retry is done.
LATE_SECONDS: Final = LEASE_SECONDS + 3.0
WAIT_SECONDS: Final = 240.0
RETRY_SECONDS: Final = 0.1
SETTLE_SECONDS: Final = 0.5
# Longer than any pending change takes to become visible.
QUIET_SECONDS: Final = 1.0
# More starts at once would only delay each other, while their leases run.
STARTS: Final = BoundedSemaphore(3)

# Statuses after which a caller repeats its request.
AGAIN: Final = frozenset({429, 503, 504})
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
COLLECTIONS: Final = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "LimitRange": "/api/v1/namespaces/{}/limitranges",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
}


class RestartedRole:
    """A role that is restarted whenever it has ended, as a kubelet would do."""

    def __init__(self, start: Callable[[], Process], role_proxy: Proxy) -> None:
        self.proxy = role_proxy
        self.kills = 0
        self._start = start
        with STARTS:
            self.process = start()
            self.process.wait_until_ready()

    def kill(self) -> None:
        """Kill the process; several writes may ask for it from any thread, but it counts once."""
        self.kills += self.end()

    def end(self) -> bool:
        """Kill the process, wait until it is dead, and return whether it was alive before."""
        pid = self.process.pid
        if is_dead(pid):
            return False
        os.kill(pid, signal.SIGKILL)
        while not is_dead(pid):
            time.sleep(0.001)
        return True

    def restart_ended(self) -> None:
        if self.process.has_ended:
            self.process = self._start()

    @property
    def url(self) -> str:
        return f"{self.process.address}/api/v1"


class World:
    def __init__(self, installation: Installation, stack: ExitStack) -> None:
        self.installation = installation
        self.plane = installation.plane
        self.name = installation.name
        self.namespaces = (installation.stock, installation.instance, installation.system)
        self.answers: list[int] = []
        self._kept: list[RestartedRole] = []
        self._stack = stack
        host = installation.plane.url.partition("//")[2]
        tls = ssl.create_default_context(cafile=installation.plane.certificate)
        self._reader = HTTPSConnection(host, timeout=30, context=tls)
        stack.callback(self._reader.close)

    def close(self) -> None:
        """End all processes and proxies of the world."""
        self._stack.close()

    def remove_objects(self) -> None:
        """Delete the units, pools and storages that are left, although no manager runs.

        A finalizer of the product would keep them for ever, so it is taken off first.
        """
        for resource in (GPU_UNITS, STOCK_POOLS, GPU_STORAGES):
            for namespace in self.namespaces:
                for item in self.items(resource.path(namespace=namespace)):
                    path = resource.path(name=item["metadata"]["name"], namespace=namespace)
                    if item["metadata"].pop("finalizers", None):
                        self.plane.request("PUT", path, item)
                    with suppress_missing():
                        self.plane.request("DELETE", path)
        self._reader.close()

    def manager(self) -> RestartedRole:
        made = self._manager(SETTINGS)
        made.process.said("leading")
        return self._keep_running(made)

    def manager_without_election(self, **settings: Any) -> RestartedRole:
        """Start a manager that leads at once, because it does not wait for a lease."""
        return self._keep_running(
            self._manager({"leaderElection": {"enabled": False}, **settings})
        )

    def api(self) -> RestartedRole:
        role_proxy = self._proxy()
        return self._keep_running(
            RestartedRole(lambda: self.installation.api(server=role_proxy.url), role_proxy)
        )

    def until(
        self,
        read_state: Callable[[], T],
        holds: Callable[[T], bool],
        *,
        seconds: float = WAIT_SECONDS,
    ) -> T:
        """Poll until the value is as wanted, and restart every role that has ended meanwhile."""

        def restarting() -> T:
            self.restart_ended()
            return read_state()

        return eventually_blocking(
            restarting, holds, within_seconds=seconds, explain=self._log_tails
        )

    def restart_ended(self) -> None:
        for role in self._kept:
            role.restart_ended()

    def breaches(self) -> list[str]:
        """Return the breaches that the audit command finds once no suspicion is left."""
        report = self.until(
            lambda: asyncio.run(audited(self.installation)),
            lambda report: not report.suspicion_count,
        )
        return told(report)

    def until_equal(
        self, may_be_over: Callable[[], bool], read_state: Callable[[], T], end: T
    ) -> T:
        """Return the state once it equals `end`, or the last state after WAIT_SECONDS.

        Reading the state is expensive, so it is read only if `may_be_over` holds. A write that
        lands late belongs to the request before it, so the state is not read while such a write is
        pending.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            self.restart_ended()
            if may_be_over() and not self._is_awaiting_a_write() and (seen := read_state()) == end:
                return seen
            time.sleep(SETTLE_SECONDS)
        return read_state()

    def until_stable(self, may_be_over: Callable[[], bool], read_state: Callable[[], T]) -> T:
        """Return the state once `may_be_over` holds and two consecutive reads are equal."""
        self.until(may_be_over, bool)
        seen = read_state()
        while True:
            time.sleep(QUIET_SECONDS)
            before, seen = seen, read_state()
            if seen == before:
                return seen

    def wait_until_serving(self, at: RestartedRole) -> None:
        def health() -> Any:
            answer = self.ask(at, "GET", "/health")
            return answer.data if answer else {}

        def is_healthy(told: Any) -> bool:
            """Return whether the caches are synced and no informer waits after an error."""
            return bool(told) and told["cacheSynced"] and not told["kubernetesError"]

        self.until(health, is_healthy)

    def ask(self, at: RestartedRole, method: str, path: str, body: object = None) -> Answer | None:
        """Return the answer, or None if the connection broke before it arrived."""
        try:
            answer = request(method, at.url + path, body)
        except (OSError, HTTPException, ProcessError):
            return None
        self.answers.append(answer.status)
        return answer

    def retry_until_definite(
        self,
        at: RestartedRole,
        method: str,
        path: str,
        body: object = None,
        *,
        then: RestartedRole | None = None,
    ) -> Answer:
        """Repeat a request until its outcome is known; repetitions go to `then`, if given."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            answer = self.ask(at, method, path, body)
            if answer is not None and answer.status not in AGAIN:
                return answer
            assert time.monotonic() < deadline, f"{method} {path}: {answer}\n{self._log_tails()}"
            time.sleep(RETRY_SECONDS)
            self.restart_ended()
            at = then or at

    def items(self, path: str) -> list[dict[str, Any]]:
        """Read a list again until the server has it: a new definition is served after a while."""
        answer = eventually_blocking(lambda: self._list(path), lambda answer: "items" in answer)
        found: list[dict[str, Any]] = answer["items"]
        return found

    def _list(self, path: str) -> Any:
        """Return the answer, read over one connection: new connections are expensive."""
        self._reader.request("GET", path, headers={"Authorization": f"Bearer {self.plane.token}"})
        return json.loads(self._reader.getresponse().read())

    def _is_awaiting_a_write(self) -> bool:
        return any(role.proxy.is_busy for role in self._kept)

    def _manager(self, settings: Mapping[str, Any]) -> RestartedRole:
        role_proxy = self._proxy()
        return RestartedRole(
            lambda: self.installation.manager(server=role_proxy.url, **settings), role_proxy
        )

    def _proxy(self) -> Proxy:
        return self._stack.enter_context(proxy(self.plane.url, self.plane.certificate))

    def _keep_running(self, role: RestartedRole) -> RestartedRole:
        self._kept.append(role)
        self._stack.callback(role.end)
        return role

    def _log_tails(self) -> str:
        return "\n".join(f"{each.process.name}:\n{each.process.tail()}" for each in self._kept)


MakeWorld = Callable[[str], World]


def crash_fault(role: RestartedRole, moment: str, *, late_seconds: float = LATE_SECONDS) -> Fault:
    """Return a fault that kills the role before or after the write, or lets it land late."""
    match moment:
        case "before":
            return Fault(before=role.kill, is_request_lost=True)
        case "after":
            return Fault(after=role.kill, is_answer_lost=True)
        case "late":
            return Fault(before=role.kill, lands_after_seconds=late_seconds)
        case _:
            raise ValueError(moment)


@contextmanager
def forking_keeper() -> Iterator[Keeper]:
    """Start a keeper; all its processes end with the block."""
    folder = Path(tempfile.mkdtemp(prefix="gpuruntime-worlds-"))
    keeper = Keeper(folder, NOWHERE, program=("-m", "tests.proofs.crash.forking_keeper"))
    try:
        yield keeper
    finally:
        keeper.close()


def world(plane: ControlPlane, keeper: Keeper, folder: Path, name: str) -> World:
    """Install the product in new namespaces; the CRDs must exist. The caller closes the world."""
    logs = folder / name
    logs.mkdir()
    installation = Installation(plane, keeper, logs, name)
    _apply_manifests(installation)
    return World(installation, ExitStack())


@contextmanager
def suppress_missing() -> Iterator[None]:
    """Suppress the answer that the object does not exist any more."""
    try:
        yield
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 404:
                raise


def is_dead(pid: int) -> bool:
    """Return whether the process has ended, or only waits for its parent to read its exit code."""
    try:
        with Path(f"/proc/{pid}/stat").open() as stat:
            return has_ended(stat)
    except FileNotFoundError:
        return True


def has_ended(stat: TextIO) -> bool:
    """Return whether the process of an open `/proc/PID/stat` has ended."""
    try:
        text = stat.read()
    except ProcessLookupError:  # the process was reaped between the open and the read
        return True
    return text.rpartition(") ")[2].startswith(("Z", "X"))


def _apply_manifests(installation: Installation) -> None:
    """Create the objects of the manifests without the cost of a kubectl process for each world."""
    for document in installation.documents():
        path = COLLECTIONS[document["kind"]].format(document["metadata"].get("namespace"))
        try:
            installation.plane.request("POST", path, document)
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 409:
                    raise


def in_parallel(stories: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Run each story in its own thread; raise the first failure when all have ended."""
    with ThreadPoolExecutor(max_workers=len(stories)) as pool:
        futures = {name: pool.submit(story) for name, story in stories.items()}
    return {name: future.result() for name, future in futures.items()}
