"""Logins to suspended units: callers who may resume one wait for it, others are told so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import asyncssh
import attrs
import pytest

from gpuruntime.models.kinds.reasons import UnitReason
from gpuruntime.models.kinds.units import GPUUnit
from tests.eventually import eventually
from tests.rooms.gateway.service import upstream
from tests.rooms.gateway.ssh.ssh_world import USER_KEY, SshWorld, ssh_world
from tests.rooms.gateway.ssh.test_login import USER_LINE, Prompts
from tests.rooms.gateway.test_wake import Api, with_ready
from tests.rooms.gateway.visitors import ticket, unit

ASLEEP: Final = unit(suspended=True, wake=True, sshKeys=(USER_LINE,))
RESUMED: Final = unit(wake=True, sshKeys=(USER_LINE,))
AWAKE: Final = with_ready(RESUMED, UnitReason.DEPLOYMENT_READY)
FAILED: Final = with_ready(RESUMED, UnitReason.POD_STARTUP_FAILED, "exit code 1")
OTHER_KEY: Final = asyncssh.generate_private_key("ssh-ed25519")
LOGINS: Final[dict[str, dict[str, Any]]] = {
    "by ticket": {"password": ticket(ASLEEP)},
    "by key": {"client_keys": [USER_KEY], "password": None},
}


@asynccontextmanager
async def sleeping(home: Path, api: Api, of: GPUUnit = ASLEEP) -> AsyncIterator[SshWorld]:
    async with (
        upstream(api.serve) as port,
        ssh_world(home, of, api=f"http://127.0.0.1:{port}") as world,
    ):
        yield world


@pytest.mark.parametrize("login", LOGINS.values(), ids=LOGINS)
async def test_a_login_resumes_the_unit_and_its_program_waits(
    tmp_path: Path, login: dict[str, Any]
) -> None:
    api = Api()
    async with sleeping(tmp_path, api) as world, await world.login(**login) as connection:
        async with asyncio.TaskGroup() as tasks:
            ran = tasks.create_task(connection.run("echo woken"))
            await eventually(lambda: len(api.asked), lambda count: count == 1)
            assert not ran.done()
            world.put(AWAKE)
        assert ran.result().stdout == "woken\n"
    assert api.asked == [("POST", "/api/v1/gpu-units/demo/wake")]


async def test_a_forward_waits_for_the_unit_as_well(tmp_path: Path) -> None:
    api = Api()
    async with upstream(api.serve) as port, sleeping(tmp_path, api) as world:
        async with await world.login() as connection, asyncio.TaskGroup() as tasks:
            opening = tasks.create_task(connection.open_connection("localhost", port))
            await eventually(lambda: len(api.asked), lambda count: count == 1)
            assert world.reach.dialled == []
            world.put(AWAKE)
            await opening
        assert world.reach.dialled == [port]


async def test_a_bearer_is_told_that_the_unit_is_being_resumed(tmp_path: Path) -> None:
    client = Prompts()
    async with (
        sleeping(tmp_path, Api()) as world,
        await world.login(client_factory=lambda: client),
    ):
        world.put(AWAKE)
    assert client.banners == ["unit demo is being resumed: please wait\n"]


async def test_a_unit_that_does_not_come_up_ends_the_connection_and_says_why(
    tmp_path: Path,
) -> None:
    client = Prompts()
    async with sleeping(tmp_path, Api()) as world:
        connection = await world.login(client_factory=lambda: client)
        world.put(FAILED)
        await connection.wait_closed()
        await eventually(lambda: world.waker.held == 0)
    assert "PodStartupFailed: exit code 1" in str(client.lost)


async def test_a_key_for_a_unit_without_wake_is_told_that_it_is_suspended(tmp_path: Path) -> None:
    client, api = Prompts(), Api()
    asleep = attrs.evolve(unit(suspended=True, sshKeys=(USER_LINE,)))
    async with sleeping(tmp_path, api, asleep) as world:
        connection = await world.login(client_factory=lambda: client, **LOGINS["by key"])
        await connection.wait_closed()
    assert "unit demo is suspended: resume it, or set access.wake" in str(client.lost)
    assert api.asked == []


async def test_a_caller_who_leaves_while_it_waits_gives_up_its_place(tmp_path: Path) -> None:
    async with sleeping(tmp_path, Api()) as world:
        connection = await world.login()
        waiting = asyncio.create_task(connection.run("echo never"))
        await eventually(lambda: world.waker.held == 1)
        connection.abort()
        with pytest.raises(asyncssh.Error):
            await waiting
        await eventually(lambda: world.waker.held == 0)


@pytest.mark.parametrize(
    "login",
    [
        pytest.param({"client_keys": [OTHER_KEY], "password": None}, id="another key"),
        pytest.param({"password": ticket(unit("other"))}, id="another unit's ticket"),
    ],
)
async def test_a_caller_without_proof_resumes_nothing(
    tmp_path: Path, login: dict[str, Any]
) -> None:
    api = Api()
    async with sleeping(tmp_path, api) as world:
        with pytest.raises(asyncssh.PermissionDenied):
            await world.login(**login)
    assert api.asked == []
