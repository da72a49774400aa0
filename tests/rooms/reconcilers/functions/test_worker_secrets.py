"""Workers of functions on the embedded server: their Secret comes first, and stays valid."""

import asyncio
import base64
import json
from operator import not_
from pathlib import Path
from random import Random
from typing import Any

import attrs
import nkeys
import pytest

from gpuruntime.bus.names import Names
from gpuruntime.bus.user_jwts import Mint, SigningOptions
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.models.kubernetes.secrets import SECRETS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.reconcilers.functions.worker_secrets import LOOK_SECONDS, RETRY_SECONDS
from gpuruntime.reconcilers.options import SidecarOptions, UnitOptions
from tests.eventually import equals
from tests.faults import Fault, refused
from tests.options import configured
from tests.rooms.operations.cluster import INSTANCE, clock
from tests.rooms.reconcilers.world import (
    OPTIONS,
    World,
    becomes,
    living,
    managing,
    message_of,
    quiet,
    reason_of,
    until,
)

pytestmark = pytest.mark.looptime

SIDECAR = configured(SidecarOptions, broker_url="nats://nats:4222")
FUNCTIONS = attrs.evolve(OPTIONS, sidecar=SIDECAR)
WORKER: dict[str, Any] = {
    "serverless": {"requestID": "echo", "workerOf": {"name": "demo", "uid": "1"}}
}
LIFETIME_SECONDS = 3 * 3600.0
SECRET = SECRETS.path(namespace=INSTANCE, name="unit-demo-w-1")


def with_files(**files: str) -> UnitOptions:
    return attrs.evolve(FUNCTIONS, sidecar=attrs.evolve(SIDECAR, broker_files=files))


def mint(folder: Path) -> Mint:
    file = folder / "account.nk"
    file.write_bytes(nkeys.encode_seed(Random(5).randbytes(32), nkeys.PREFIX_BYTE_ACCOUNT))
    options = configured(SigningOptions, seed_file=str(file), lifetime_seconds=LIFETIME_SECONDS)
    return Mint(options, Names(), now=clock, entropy=Random(6).randbytes)


def told(world: World) -> dict[str, str]:
    data: dict[str, str] = world.call("GET", SECRET)["data"]
    return {name: base64.b64decode(text).decode() for name, text in data.items()}


def user_in(text: str) -> str:
    body = text.splitlines()[1].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return str(claims["sub"])


def begin(world: World) -> None:
    world.add_unit("demo-w-1", **WORKER)


async def run_a_worker(world: World) -> None:
    """Stop the simulated cluster, so that nothing changes while time passes."""
    async with living(world):
        begin(world)
        await becomes(world, "demo-w-1", "Ready")
        await quiet(world)


async def test_a_worker_has_its_secret_before_it_has_a_pod() -> None:
    world = World()
    async with living(world), managing(world, options=FUNCTIONS):
        begin(world)
        await becomes(world, "demo-w-1", "Ready")
        done = world.ledger.done
        assert done.index(f"POST {SECRETS.path(namespace=INSTANCE)}") < done.index(
            f"POST {DEPLOYMENTS.path(namespace=INSTANCE)}"
        )
        assert world.made(SECRETS) == {"POST": 1}
        assert told(world).keys() == {"worker.yaml"}


async def test_an_unchanged_worker_causes_no_write() -> None:
    world = World()
    async with managing(world, options=FUNCTIONS):
        await run_a_worker(world)
        before = len(world.ledger.done)
        await asyncio.sleep(5 * LOOK_SECONDS)
        assert len(world.ledger.done) == before


async def test_without_a_broker_no_worker_starts() -> None:
    world = World()
    async with living(world), managing(world):
        begin(world)
        await until(lambda: reason_of(world.unit("demo-w-1")), equals("QueueUnknown"))
        assert world.objects(DEPLOYMENTS, INSTANCE) == world.objects(SECRETS, INSTANCE) == []


async def test_a_shared_login_is_in_the_secret_and_follows_its_file(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("sesame")
    world = World()
    async with managing(world, options=with_files(tokenFile=str(token))):
        await run_a_worker(world)
        assert told(world)["token"] == "sesame"
        assert "tokenFile: /etc/gpuruntime/token" in told(world)["worker.yaml"]
        before = world.made(DEPLOYMENTS)
        token.write_text("barley")
        await asyncio.sleep(LOOK_SECONDS + 1)
        assert told(world)["token"] == "barley"
        assert world.made(DEPLOYMENTS) == before


async def test_a_missing_login_is_named_and_found_once_it_exists(tmp_path: Path) -> None:
    token = tmp_path / "token"
    world = World()
    async with living(world), managing(world, options=with_files(tokenFile=str(token))):
        begin(world)
        await until(lambda: reason_of(world.unit("demo-w-1")), equals("WorkerSyncFailed"))
        assert f"cannot read {token}" in message_of(world.unit("demo-w-1"))
        token.write_text("sesame")
        await becomes(world, "demo-w-1", "Ready")


async def test_a_login_that_cannot_be_renewed_yet_does_not_affect_serving_workers(
    tmp_path: Path,
) -> None:
    world, made = World(), mint(tmp_path)
    seed = tmp_path / "account.nk"
    kept = seed.read_bytes()
    async with managing(world, options=FUNCTIONS, mint=made):
        await run_a_worker(world)
        first = user_in(told(world)["credentials"])
        seed.unlink()
        await asyncio.sleep(LIFETIME_SECONDS * 3 / 4)
        assert reason_of(world.unit("demo-w-1")) == "DeploymentReady"
        assert user_in(told(world)["credentials"]) == first
        seed.write_bytes(kept)
        await asyncio.sleep(RETRY_SECONDS + 1)
        assert user_in(told(world)["credentials"]) != first


async def test_minted_credentials_are_renewed_in_time_without_a_restart(tmp_path: Path) -> None:
    world = World()
    async with managing(world, options=FUNCTIONS, mint=mint(tmp_path)):
        await run_a_worker(world)
        first = user_in(told(world)["credentials"])
        deployments = world.made(DEPLOYMENTS)
        await asyncio.sleep(LIFETIME_SECONDS / 2)
        assert user_in(told(world)["credentials"]) == first
        await asyncio.sleep(LIFETIME_SECONDS / 4)
        assert user_in(told(world)["credentials"]) != first
        assert world.made(DEPLOYMENTS) == deployments
        assert world.made(SECRETS) == {"POST": 1, "PATCH": 1}


async def test_the_next_leader_keeps_valid_credentials(tmp_path: Path) -> None:
    world, made = World(), mint(tmp_path)
    async with living(world):
        async with managing(world, options=FUNCTIONS, mint=made):
            begin(world)
            await becomes(world, "demo-w-1", "Ready")
        before = told(world)
        async with managing(world, options=FUNCTIONS, mint=made):
            await quiet(world)
        assert told(world) == before
        assert world.made(SECRETS) == {"POST": 1}


async def test_another_signing_key_leads_to_new_credentials(tmp_path: Path) -> None:
    world, made = World(), mint(tmp_path)
    async with managing(world, options=FUNCTIONS, mint=made):
        await run_a_worker(world)
        first = told(world)["credentials"]
        seed = nkeys.encode_seed(Random(9).randbytes(32), nkeys.PREFIX_BYTE_ACCOUNT)
        (tmp_path / "account.nk").write_bytes(seed)
        await asyncio.sleep(LOOK_SECONDS + 1)
        assert told(world)["credentials"] != first


async def test_a_deleted_secret_is_created_again() -> None:
    world = World()
    async with managing(world, options=FUNCTIONS):
        await run_a_worker(world)
        before = told(world)
        world.call("DELETE", SECRET)
        await asyncio.sleep(LOOK_SECONDS + 1)
        assert told(world) == before


async def test_another_owners_secret_of_the_name_is_left_alone() -> None:
    world = World()
    foreign = {"metadata": {"name": "unit-demo-w-1"}, "data": {"a": "Yg=="}}
    world.call("POST", SECRETS.path(namespace=INSTANCE), foreign)
    async with living(world), managing(world, options=FUNCTIONS):
        begin(world)
        await until(lambda: reason_of(world.unit("demo-w-1")), equals("WorkerSyncFailed"))
        assert "Secret runtime-instance/unit-demo-w-1 has no owner" in message_of(
            world.unit("demo-w-1")
        )
        assert world.objects(DEPLOYMENTS, INSTANCE) == []
        assert told(world) == {"a": "b"}


async def test_another_image_of_the_worker_restarts_no_pod() -> None:
    """The image comes with the next Pod, as a change of ours does for every unit."""
    world = World()
    later = attrs.evolve(FUNCTIONS, sidecar=attrs.evolve(SIDECAR, image="gpuruntime:later"))
    async with living(world):
        async with managing(world, options=FUNCTIONS):
            begin(world)
            await becomes(world, "demo-w-1", "Ready")
        before = world.deployment("demo-w-1")["spec"]
        async with managing(world, options=later):
            await quiet(world)
            assert world.deployment("demo-w-1")["spec"] == before
            world.delete(GPU_UNITS, INSTANCE, "demo-w-1")
            await until(lambda: world.objects(DEPLOYMENTS, INSTANCE), not_)
            begin(world)
            await becomes(world, "demo-w-1", "Ready")
        template = world.deployment("demo-w-1")["spec"]["template"]
        assert template["spec"]["initContainers"][0]["image"] == "gpuruntime:later"


async def test_new_limits_of_a_function_reach_running_workers() -> None:
    world = World()
    async with managing(world, options=FUNCTIONS):
        template = world.add_unit("demo", serverless={"requestID": "echo", "timeoutSeconds": 60})
        owner = {"name": "demo", "uid": template["metadata"]["uid"]}
        async with living(world):
            world.add_unit("demo-w-1", serverless={"requestID": "echo", "workerOf": owner})
            await becomes(world, "demo-w-1", "Ready")
        before = world.deployment("demo-w-1")["spec"]
        assert "attemptTimeout: 60" in told(world)["worker.yaml"]
        world.change("demo", serverless={"timeoutSeconds": 7, "maxAttempts": 2})
        await quiet(world)
        assert "attemptTimeout: 7" in told(world)["worker.yaml"]
        assert "maxAttempts: 2" in told(world)["worker.yaml"]
        assert world.deployment("demo-w-1")["spec"] == before
        assert world.made(SECRETS) == {"POST": 1, "PATCH": 1}


async def test_a_worker_without_its_template_keeps_its_original_limits() -> None:
    world = World()
    async with managing(world, options=FUNCTIONS):
        world.add_unit("demo", serverless={"requestID": "echo", "timeoutSeconds": 60})
        await run_a_worker(world)
        assert "attemptTimeout: 300" in told(world)["worker.yaml"]


async def test_a_worker_edited_to_serve_another_function_gets_no_login_for_it() -> None:
    world = World()
    async with managing(world, options=FUNCTIONS):
        template = world.add_unit("demo", serverless={"requestID": "echo"})
        owner = {"name": "demo", "uid": template["metadata"]["uid"]}
        async with living(world):
            world.add_unit("demo-w-1", serverless={"requestID": "echo", "workerOf": owner})
            await becomes(world, "demo-w-1", "Ready")
            before = told(world)
            world.change("demo-w-1", serverless={"requestID": "theirs"})
            await becomes(world, "demo-w-1", "Failed")
            assert reason_of(world.unit("demo-w-1")) == "ServerlessConfigInvalid"
            assert "unit demo, whose worker this is, declares echo" in message_of(
                world.unit("demo-w-1")
            )
            assert told(world) == before
            world.change("demo-w-1", serverless={"requestID": "echo"})
            await becomes(world, "demo-w-1", "Ready")


@pytest.mark.parametrize(
    "fault",
    [Fault(is_answer_lost=True), refused(503, "ServiceUnavailable"), refused(403, "Forbidden")],
    ids=["lost answer", "unavailable", "forbidden"],
)
async def test_a_failed_write_is_retried_and_mints_one_login(tmp_path: Path, fault: Fault) -> None:
    world = World()
    async with living(world), managing(world, options=FUNCTIONS, mint=mint(tmp_path)) as manager:
        manager.transport.on("POST", "secrets", fault)
        begin(world)
        await becomes(world, "demo-w-1", "Ready")
        assert world.made(SECRETS) == {"POST": 1}
