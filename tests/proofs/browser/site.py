"""The console before an embedded cluster, and actions of its user."""

from collections.abc import Mapping
from typing import Any

import attrs

from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.storages import GPU_STORAGES
from gpuruntime.models.kinds.units import GPU_UNITS
from tests.proofs.browser.chromium import Tab
from tests.rooms.api.service import Service
from tests.rooms.operations.cluster import INSTANCE, Cluster

FOCUSED = (
    "(e => e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent)"
    "(document.activeElement)"
)
PLACES = ("", "units", "stock", "pools", "storages", "secrets", "functions")
LONG = "unit-broken-7c9/runtime: CrashLoopBackOff: exit code 3: " + "no weights in /data; " * 12
TIMELINE = {
    "acceptedAt": "2025-01-01T00:00:00.000000Z",
    "claimedAt": "2025-01-01T00:00:00.020000Z",
    "createdAt": "2025-01-01T00:00:00Z",
    "scheduledAt": "2025-01-01T00:00:01Z",
    "startedAt": "2025-01-01T00:00:02.000000Z",
    "readyAt": "2025-01-01T00:00:02.500000Z",
}
WAYS = {
    "ready": ("True", "DeploymentReady", "the Pod is ready"),
    "broken": ("False", "PodStartupFailed", LONG),
    "coming": ("False", "DeploymentProgressing", "the Pod is on its way"),
    "resting": ("False", "ScaledToZero", "suspended: no Pod runs"),
}


@attrs.frozen
class Site:
    cluster: Cluster
    api: Service
    tab: Tab

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.api.client.port}"

    async def go(self, place: str) -> None:
        """Open a place of the console, and return when its heading and contents are shown."""
        await self.tab.go(f"{self.address}/console/#/{place}")
        title = (place.partition("?")[0] or "overview").capitalize()
        await self.tab.until(f"document.querySelector('h1')?.textContent === '{title}'")
        await self.tab.until("!document.body.innerText.includes('Loading…')")

    async def shows(self, words: str) -> None:
        await self.tab.until(f"document.getElementById('view').innerText.includes({words!r})")

    async def press(self, label: str) -> None:
        """Focus the button with this label and click it."""
        await press(self.tab, label)

    async def opens(self, label: str) -> None:
        """Press a button, and return when its dialog and the contents are shown."""
        await self.press(label)
        await self.tab.until(
            "(e => e && !e.innerText.includes('Loading…'))(document.querySelector('dialog'))"
        )

    async def leaves(self) -> None:
        """Leave the dialog by keyboard, and return when it is gone."""
        await self.tab.press("Escape")
        await self.tab.until("!document.querySelector('dialog')")

    async def focused(self) -> str:
        """Return the text that a screen reader speaks for the focused element."""
        words: str = await self.tab.evaluate(FOCUSED)
        return words

    async def focuses(self, words: str) -> None:
        """Wait until a screen reader speaks this text for the focused element."""
        await self.tab.equals(FOCUSED, words)


async def press(tab: Tab, label: str) -> None:
    """Focus the button with this label and click it, in one look, since rows come and go."""
    await tab.until(f"(b => b && (b.focus(), b.click(), true))({button(label)})")


def button(label: str) -> str:
    named = f"(b.getAttribute('aria-label') || b.textContent) === {label!r}"
    return f"[...document.querySelectorAll('button')].find(b => {named})"


def add_unit(cluster: Cluster, name: str, way: str = "ready", **more: Any) -> None:
    """Add a unit with the status that the manager would write."""
    status, reason, message = WAYS[way]
    condition = {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": more.pop("message", message),
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    }
    add(cluster, name, {"specName": "g1.1", "gpu": 1, "memory": "16Gi", **more})
    timeline = {k: v for k, v in TIMELINE.items() if way == "ready" or k != "readyAt"}
    told = {"conditions": [condition], "timeline": timeline, "nodeName": "node-1"}
    path = GPU_UNITS.path(namespace=INSTANCE, name=name, subresource="status")
    cluster.call("PATCH", path, {"status": told})


def add(cluster: Cluster, name: str, spec: Mapping[str, object]) -> None:
    body = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": "GPUUnit",
        "metadata": {"name": name, "labels": {labels.TENANT: "team-a"}},
        "spec": spec,
    }
    cluster.call("POST", GPU_UNITS.path(namespace=INSTANCE), body)


def add_storage(cluster: Cluster, name: str) -> None:
    body = {
        "apiVersion": GPU_STORAGES.api_version,
        "kind": "GPUStorage",
        "metadata": {"name": name},
        "spec": {"size": "10Gi", "prepare": {"fromStorageName": "models"}},
    }
    cluster.call("POST", GPU_STORAGES.path(namespace=INSTANCE), body)
    failed = {"prepare": {"phase": "Failed"}}
    path = GPU_STORAGES.path(namespace=INSTANCE, name=name, subresource="status")
    cluster.call("PATCH", path, {"status": failed})


def cluster_with_each_phase() -> Cluster:
    """Return a cluster with an object of each kind and phase, some with long texts."""
    cluster = Cluster()
    cluster.add_stock(3)
    cluster.add_stock_unit("p-4", is_ready=False)
    for way in WAYS:
        add_unit(cluster, way, way)
    add_unit(cluster, "a-name-that-is-as-long-as-any-name-of-an-object-may-be-in-all", "broken")
    add_storage(cluster, "copy")
    return cluster
