"""`gpuruntime audit`: its output for an operator, and its exit codes."""

import asyncio
import json
import sys
from pathlib import Path

import attrs
import pytest
import yaml

from gpuruntime.embedded.apiserver.http_listener import serve
from gpuruntime.embedded.apiserver.in_process_transport import InProcessTransport
from gpuruntime.errors import ClusterRequiredError
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPU_UNITS
from gpuruntime.roles.audit import SETTLE_SECONDS, as_json, as_table, audit
from gpuruntime.roles.cluster_connection import NoCluster
from gpuruntime.roles.dev.dev import kubeconfig_of
from gpuruntime.settings.schema import Settings
from tests.eventually import equals
from tests.rooms.operations.cluster import INSTANCE, STOCK, replica
from tests.rooms.reconcilers.world import World, living, managing, phase_of, quiet, until


@attrs.frozen
class Ended:
    code: int
    output: str
    errors: str


async def run(*arguments: str) -> Ended:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gpuruntime",
        "audit",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        output, errors = await process.communicate()
    return Ended(process.returncode or 0, output.decode(), errors.decode())


def kubeconfig(folder: Path, url: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig_of(url)))
    return str(path)


def add_sound_stock(world: World, name: str) -> None:
    world.add_stock_unit(name)
    path = GPU_UNITS.path(namespace=STOCK, name=name, subresource="status")
    world.call("PATCH", path, {"status": {"phase": "Ready", "readyReplicas": 1}})


def break_claim(world: World, name: str) -> None:
    path = GPU_UNITS.path(namespace=STOCK, name=name)
    world.call("PATCH", path, {"metadata": {"annotations": {labels.OPERATION_ID: "one"}}})


async def test_a_clean_cluster_exits_with_0_and_a_broken_one_with_1(tmp_path: Path) -> None:
    world = World()
    add_sound_stock(world, "p-1")
    async with serve(world.server) as url:
        config = kubeconfig(tmp_path, url)
        clean = await run("--kubeconfig", config, "--context", "gpuruntime-dev")
        break_claim(world, "p-1")
        broken = await run("--kubeconfig", config)
    assert (clean.code, clean.errors) == (0, "")
    assert clean.output.endswith("1 objects: no breaches\n")
    assert broken.code == 1
    header, row, summary = broken.output.splitlines()
    assert header.split("   ")[0].startswith("RULE")
    assert row.startswith("claim-whole")
    assert f"GPUUnit {STOCK}/p-1" in row
    assert "remove" in row
    assert summary.endswith("1 breaches")


async def test_an_unreachable_cluster_prints_one_line_and_exits_with_3(
    tmp_path: Path,
) -> None:
    ended = await run("--kubeconfig", kubeconfig(tmp_path, "http://127.0.0.1:1"))
    assert (ended.code, ended.output) == (3, "")
    (line,) = ended.errors.splitlines()
    assert "the cluster cannot be read" in line


async def test_a_missing_kubeconfig_exits_with_2(tmp_path: Path) -> None:
    ended = await run("--kubeconfig", str(tmp_path / "none"))
    assert (ended.code, ended.output) == (2, "")


@pytest.mark.looptime
async def test_a_working_cluster_is_clean_in_both_formats() -> None:
    world = World()
    async with living(world), managing(world):
        world.add_pool(replicas=2)
        await until(lambda: phase_of(world.pool()), equals("Ready"))
        async with replica(world) as api:
            await api.create("one", name="one")
        await quiet(world)
        report = await audit(Settings(), transport=InProcessTransport(world.server))
    assert report.breaches == ()
    assert as_table(report).endswith("no breaches")
    told = json.loads(as_json(report))
    assert told["objects"] == report.object_count > 5
    assert all(rule["checked"] for rule in told["rules"])


@pytest.mark.looptime
async def test_the_json_output_has_every_breach() -> None:
    world = World()
    for number in range(1, 121):
        add_sound_stock(world, f"p-{number}")
        break_claim(world, f"p-{number}")
    report = await audit(Settings(), transport=InProcessTransport(world.server))
    told = json.loads(as_json(report))
    assert len(told["breaches"]) == 120
    assert {each["rule"] for each in told["breaches"]} == {"claim-whole"}


@pytest.mark.looptime
async def test_a_temporary_finding_is_watched_for_the_requested_time() -> None:
    world = World()
    add_sound_stock(world, "p-1")
    world.claim_by_hand("p-1", "nobody", operation="one")
    transport = InProcessTransport(world.server)
    loop = asyncio.get_running_loop()
    began = loop.time()
    glance = await audit(Settings(), transport=transport)
    assert loop.time() - began == SETTLE_SECONDS
    assert (glance.breaches, glance.suspicion_count) == ((), 1)
    assert "1 suspicions are too young" in as_table(glance)
    report = await audit(Settings(), transport=transport, watch_seconds=300)
    assert [each.rule for each in report.breaches] == ["claim-settled"]
    assert f"{INSTANCE}/nobody" in as_table(report)
    assert loop.time() - began < 200


async def test_the_audit_fails_without_a_cluster() -> None:
    with pytest.raises(ClusterRequiredError, match="cannot be read"):
        await audit(Settings(), transport=NoCluster())
