"""Secrets of a tenant on a real node: units wait for them and use them, and no value shows."""

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from gpuruntime.models.kinds.secrets import secret_name_of
from tests.eventually import eventually
from tests.proofs.real_cluster.product import Answer
from tests.proofs.real_node.images.oci_archive import Image
from tests.proofs.real_node.images.preloaded import BUSYBOX, Images
from tests.proofs.real_node.node import Node
from tests.proofs.real_node.through_gateway.registry import registry
from tests.proofs.real_node.through_gateway.roles import TENANT, Roles

pytestmark = pytest.mark.node

CANARY: Final = "canary-4711-of-a-secret-value"
HUB: Final = secret_name_of(TENANT, "hub")
COMMAND: Final = ["sh", "-c", "trap exit TERM; sleep 1d & wait"]
FILE: Final = "/etc/hub/token"
# What each unit takes from secrets.
TEMPLATES: Final[dict[str, dict[str, Any]]] = {
    "variable": {"envs": [{"name": "TOKEN", "secret": {"name": "hub", "key": "token"}}]},
    "key": {"envs": [{"name": "TOKEN", "secret": {"name": "half", "key": "token"}}]},
    "file": {"files": [{"path": FILE, "secret": {"name": "hub", "key": "token"}}]},
    "image": {},
}
# The reason and words of each unit's condition while its secret is missing.
MISSING: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "variable": (
        "PodStartupFailed",
        ("CreateContainerConfigError", f'secret "{HUB}" not found'),
    ),
    "key": (
        "PodStartupFailed",
        (
            "CreateContainerConfigError",
            "couldn't find key token in Secret",
            secret_name_of(TENANT, "half"),
        ),
    ),
    "file": ("DeploymentProgressing", ("preparing Pod ", "which needs the secrets hub/token")),
    "image": ("PodStartupFailed", ("private:1", "401 Unauthorized")),
}
# The kubelet retries a pull after 10 s, then after 20 s; mounts and starts are retried sooner.
START_SECONDS: Final = 90.0


class TenantCaller:
    """A caller with the tenant's token that keeps every answer."""

    def __init__(self, roles: Roles) -> None:
        self.answers: list[Answer] = []
        self._caller = roles.caller()

    def get(self, path: str) -> Any:
        self.answers.append(self._caller.get(path))
        return self.answers[-1].data

    def store(self, name: str, **body: object) -> int:
        self.answers.append(self._caller.post("/secrets", {"name": name, **body}))
        return self.answers[-1].status


async def test_units_wait_for_their_secrets_and_start_with_them_while_no_value_shows(
    roles: Roles, real_node: Node, images: Images, tmp_path: Path
) -> None:
    archive = tmp_path / "private.tar"
    images.pack(archive, Image(name="private"), "files", "busybox")
    tenant = TenantCaller(roles)
    roles.seed(len(TEMPLATES))
    async with registry(archive, "ann", CANARY) as address:
        assert tenant.store("half", data={"other": CANARY}) == 201
        for name, template in TEMPLATES.items():
            is_private = name == "image"
            roles.claim(
                name,
                image=f"{address}/private:1" if is_private else BUSYBOX,
                template={"command": COMMAND, **template},
                imagePullSecrets=["images"] if is_private else [],
            )
        async with asyncio.TaskGroup() as tasks:
            for name in TEMPLATES:
                tasks.create_task(wait_for_missing_words(tenant, name))
        # The kubelet reports a file's missing secret by an Event alone.
        events = [event["message"] for event in tenant.get("/gpu-units/file/events")]
        assert any(f'secret "{HUB}" not found' in message for message in events), events

        assert tenant.store("hub", data={"token": CANARY}) == 201
        assert tenant.store("half", data={"token": CANARY}) == 200
        login = {"server": address, "username": "ann", "password": CANARY}
        assert tenant.store("images", type="registry", registry=login) == 201
        async with asyncio.TaskGroup() as tasks:
            for name in TEMPLATES:
                tasks.create_task(wait_until_ready(tenant, name))
    await check_values_in_containers(roles)
    check_that_no_value_shows(roles, tenant, real_node)


async def wait_for_missing_words(tenant: TenantCaller, name: str) -> None:
    reason, words = MISSING[name]

    def is_shown(unit: Any) -> bool:
        return unit["reason"] == reason and all(word in unit["message"] for word in words)

    await eventually(
        lambda: tenant.get(f"/gpu-units/{name}"),
        is_shown,
        within_seconds=START_SECONDS,
        poll_seconds=0.3,
    )


async def wait_until_ready(tenant: TenantCaller, name: str) -> None:
    await eventually(
        lambda: tenant.get(f"/gpu-units/{name}"),
        lambda unit: unit["phase"] == "Ready",
        within_seconds=START_SECONDS,
        poll_seconds=0.3,
    )


async def check_values_in_containers(roles: Roles) -> None:
    for name, script in (
        ("variable", 'printf %s "$TOKEN"'),
        ("key", 'printf %s "$TOKEN"'),
        ("file", f"cat {FILE} && ! echo x 2>/dev/null >{FILE}"),
    ):
        ended = await roles.run("units", "exec", name, "--", "sh", "-c", script)
        assert (ended.code, ended.output.decode()) == (0, CANARY), ended


def check_that_no_value_shows(roles: Roles, tenant: TenantCaller, node: Node) -> None:
    """Search answers, logs, metrics and the objects of all namespaces but Secrets."""
    plane, made = roles.plane, roles.installation
    for name in TEMPLATES:
        tenant.get(f"/gpu-units/{name}")
        tenant.get(f"/gpu-units/{name}/events")
    tenant.get("/secrets")
    kinds = "gpuunits,events,pods,replicasets,deployments,configmaps,services"
    places = {
        "answers": str(tenant.answers),
        "logs of roles": roles.logs(),
        "metrics": roles.metrics(),
        "objects": plane.kubectl("get", kinds, "--all-namespaces", "-o", "json"),
        "logs of the node": "".join(
            path.read_text(errors="replace") for path in node.logs.glob("*.log")
        ),
    }
    stored = made.objects("secrets", made.instance)
    assert all(has_canary(json.dumps(secret)) for secret in stored), "the search finds values"
    assert [name for name, text in places.items() if not text or has_canary(text)] == []


def has_canary(text: str) -> bool:
    return any(each in text for each in encodings_of(CANARY))


def encodings_of(value: str) -> Iterator[str]:
    """Yield the value, and its middle in base64 at each alignment."""
    yield value
    for shift in range(3):
        yield base64.b64encode(b"\0" * shift + value.encode()).decode()[4:-4]
