"""Pods for tests of a node itself, and requests to them."""

import json
import urllib.request
from typing import Any

from tests.eventually import eventually_blocking
from tests.proofs.real_cluster.controlplane import ControlPlane, ControlPlaneError
from tests.proofs.real_node.images.preloaded import BUSYBOX, PYTHON

WAIT_SECONDS = 30.0


def pod(name: str, *command: str, image: str = PYTHON, **limits: str) -> dict[str, Any]:
    """Return a Pod that ends at once on deletion; limits have the names of Kubernetes."""
    container: dict[str, Any] = {"name": "main", "image": image, "command": list(command)}
    if limits:
        container["resources"] = {
            "limits": {key.replace("__", "/"): limits[key] for key in limits}
        }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "containers": [container],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
        },
    }


def service(name: str, port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": port}]},
    }


def apply(plane: ControlPlane, *documents: dict[str, Any]) -> None:
    for document in documents:
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(document))


def status(plane: ControlPlane, name: str, namespace: str = "default") -> dict[str, Any]:
    found = plane.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    result: dict[str, Any] = found["status"]
    return result


def wait_for_phase(plane: ControlPlane, name: str, phase: str) -> dict[str, Any]:
    return eventually_blocking(
        lambda: status(plane, name),
        lambda seen: seen["phase"] == phase,
        within_seconds=WAIT_SECONDS,
    )


def ask(url: str) -> str:
    """Return the answer to a request from the node, which learns of a ready Pod with a delay."""
    return eventually_blocking(lambda: _answer(url), within_seconds=WAIT_SECONDS)


def answers(url: str) -> bool:
    return bool(_answer(url))


def _answer(url: str) -> str:
    """Return the answer, or an empty text if no server answers; proxies are not used."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            text: str = answer.read().decode()
            return text
    except OSError:
        return ""


class Client:
    """A Pod that sends requests to other Pods."""

    def __init__(self, plane: ControlPlane, name: str = "client") -> None:
        self._plane = plane
        self._name = name
        apply(plane, pod(name, "sleep", "1d", image=BUSYBOX))
        wait_for_phase(plane, name, "Running")

    def ask(self, url: str) -> str:
        return self._plane.kubectl("exec", self._name, "--", "wget", "-q", "-O", "-", url)

    def answers(self, url: str) -> bool:
        """Return False also while a kubelet that has just started knows no Pod yet."""
        try:
            return bool(self.ask(url))
        except ControlPlaneError:
            return False
