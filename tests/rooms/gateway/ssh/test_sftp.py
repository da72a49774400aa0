"""SFTP and SCP over real connections, by files over `sh` and by an image's own server."""

import asyncio
import inspect
import os
import random
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import attrs
import pytest
from asyncssh.sftp import SFTPServerHandler

from gpuruntime.gateway.ssh.sftp import MOST_OPEN_FILES, SftpFiles
from gpuruntime.gateway.ssh.shell_files import LARGEST_LISTING, LARGEST_PATH
from tests.rooms.gateway.ssh.local_container import LocalContainer
from tests.rooms.gateway.ssh.ssh_world import OPTIONS, ssh_world
from tests.rooms.gateway.ssh.test_shell_files import NAMES

CONTENT = random.Random(5).randbytes(3_000_000)
OVER_SH = attrs.evolve(OPTIONS, prefers_sftp_server=False)


@asynccontextmanager
async def sftp_over_sh(home: Path, **options: Any) -> AsyncIterator[asyncssh.SFTPClient]:
    async with (
        ssh_world(home, options=OVER_SH) as world,
        await world.login() as connection,
        connection.start_sftp_client(**options) as client,
    ):
        yield client


async def test_files_go_both_ways_and_are_equal(tmp_path: Path) -> None:
    ours, back = tmp_path / "ours", tmp_path / "back"
    ours.write_bytes(CONTENT)
    ours.chmod(0o640)
    os.utime(ours, (1_000_000_000, 1_100_000_000))
    home = tmp_path / "home"
    home.mkdir()
    async with sftp_over_sh(home) as client:
        await client.put(ours, "there", preserve=True)
        await client.get("there", back)
    found = (home / "there").stat()
    assert (home / "there").read_bytes() == back.read_bytes() == CONTENT
    assert (stat.S_IMODE(found.st_mode), int(found.st_mtime)) == (0o640, 1_100_000_000)


async def test_every_operation_of_sftp_works(tmp_path: Path) -> None:
    async with sftp_over_sh(tmp_path) as client:
        assert await client.realpath(".") == str(tmp_path)
        await client.mkdir("folder")
        async with client.open("folder/a", "w") as file:
            await file.write("first ")
            await file.write("second")
            await file.fsync()
            assert (await file.stat()).size == 12
        async with client.open("folder/a", "a") as file:
            await file.write("!")
        async with client.open("folder/a", "r+") as file:
            await file.seek(6)
            await file.write("SEC")
            await file.seek(0)
            assert await file.read() == "first SECond!"
            await file.truncate(5)
        assert (tmp_path / "folder/a").read_text() == "first"
        await client.symlink("a", "folder/link")
        assert await client.readlink("folder/link") == "a"
        await client.link("folder/a", "folder/b")
        await client.rename("folder/b", "folder/c")
        with pytest.raises(asyncssh.SFTPFailure):
            await client.rename("folder/c", "folder/a")
        await client.remove("folder/c")
        await client.symlink("a", "folder/c")
        await client.posix_rename("folder/a", "folder/c")
        await client.posix_rename("folder/c", "folder/a")
        await client.chmod("folder/a", 0o600)
        await client.utime("folder/a", times=(5, 6))
        found = await client.stat("folder/a")
        assert (found.permissions, found.mtime) == (stat.S_IFREG | 0o600, 6)
        listed = {each.filename for each in await client.readdir("folder")}
        assert listed - {".", ".."} == {"a", "link"}
        assert "rw-------" in str((await client.readdir("folder"))[0].longname) + str(
            (await client.readdir("folder"))[1].longname
        )
        assert (await client.statvfs("folder")).blocks > 0
        await client.remove("folder/link")
        await client.remove("folder/a")
        await client.rmdir("folder")
        with pytest.raises(asyncssh.SFTPNoSuchFile):
            await client.stat("folder")
        with pytest.raises(asyncssh.SFTPNoSuchFile):
            await client.open("folder/a", "w")


async def test_every_name_passes(tmp_path: Path) -> None:
    async with sftp_over_sh(tmp_path, path_encoding=None) as client:
        for name in NAMES.values():
            async with client.open(name, "wb") as file:
                await file.write(name)
        listed: set[Any] = set(await client.listdir(b"."))
        assert listed | {b".", b".."} == {*NAMES.values(), b".", b".."}
        for name in NAMES.values():
            async with client.open(name, "rb") as file:
                content: Any = await file.read()
                assert content == name


@pytest.mark.parametrize("is_recursive", [False, True], ids=["a file", "a folder"])
async def test_scp_copies_both_ways(tmp_path: Path, is_recursive: bool) -> None:
    home, ours = tmp_path / "home", tmp_path / "ours"
    home.mkdir()
    (ours / "inner").mkdir(parents=True)
    (ours / "inner/a b").write_bytes(CONTENT)
    source = ours if is_recursive else ours / "inner/a b"
    async with ssh_world(home, options=OVER_SH) as world, await world.login() as connection:
        await asyncssh.scp(source, (connection, "~/there"), recurse=is_recursive)
        await asyncssh.scp((connection, "there"), tmp_path / "back", recurse=is_recursive)
        with pytest.raises(asyncssh.SFTPError):
            await asyncssh.scp((connection, "nothing"), tmp_path / "none")
    found = tmp_path / "back" / ("inner/a b" if is_recursive else "")
    assert found.read_bytes() == CONTENT


async def test_a_write_that_failed_is_told_when_the_file_is_closed(tmp_path: Path) -> None:
    async with sftp_over_sh(tmp_path) as client:
        file = await client.open("/dev/full", "r+b")
        await file.write(b"x" * 100_000)
        with pytest.raises(asyncssh.SFTPFailure, match="No space left"):
            await file.close()


async def test_the_open_files_of_a_session_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    async with sftp_over_sh(tmp_path) as client:
        opened = [await client.open("a") for _ in range(MOST_OPEN_FILES)]
        with pytest.raises(asyncssh.SFTPFailure, match="64 files are open"):
            await client.open("a")
        await opened[0].close()
        await client.open("a")


async def test_an_images_own_server_is_used_if_it_has_one(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    server = programs / "sftp-server"
    server.write_text("#!/bin/sh\npwd >ran\n")
    server.chmod(0o755)
    paths = f"{programs}:{os.environ['PATH']}"
    container = LocalContainer(tmp_path, paths=paths)
    async with (
        ssh_world(tmp_path, container=container) as world,
        await world.login() as connection,
    ):
        with pytest.raises(asyncssh.SFTPError):
            await connection.start_sftp_client()
    assert (tmp_path / "ran").read_text() == f"{tmp_path}\n"


async def test_the_path_of_an_images_own_server_is_bounded(tmp_path: Path) -> None:
    """The image is the tenant's, and its `sh` prints what it likes."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sh").write_text("#!/bin/sh\nhead -c 50000 /dev/zero | tr '\\0' /\n")
    (programs / "sh").chmod(0o755)
    container = LocalContainer(tmp_path, paths=f"{programs}:{os.environ['PATH']}")
    async with (
        ssh_world(tmp_path, container=container) as world,
        await world.login() as connection,
    ):
        with pytest.raises(asyncssh.SFTPError):
            await connection.start_sftp_client()
    assert container.executed[-1].arguments[-1] == "/" * LARGEST_PATH


async def test_the_listings_that_a_session_reads_at_once_are_bounded(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    record = "0 0 0 0 0 0 ./a/"
    size = LARGEST_LISTING * 2 // 3
    (programs / "find").write_text(f"#!/bin/sh\nyes '{record}' | head -c {size - size % 17}\n")
    (programs / "find").chmod(0o755)
    container = LocalContainer(tmp_path, paths=f"{programs}:{os.environ['PATH']}")

    async def nothing() -> None: ...

    files = SftpFiles(container, drain=nothing, over=lambda: None)
    first = files.scandir(b".")
    assert (await anext(first)).filename == b"a"
    with pytest.raises(asyncssh.SFTPFailure):
        await anext(files.scandir(b"."))
    await first.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert (await anext(files.scandir(b"."))).filename == b"a"


async def test_without_files_neither_sftp_nor_scp_is_served(tmp_path: Path) -> None:
    options = attrs.evolve(OPTIONS, has_files=False)
    async with ssh_world(tmp_path, options=options) as world, await world.login() as connection:
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.start_sftp_client()
        # The command is the image's own program, if it has one.
        await connection.run("scp -t .", stdin=asyncssh.DEVNULL)
        assert world.container.executed[-1].arguments[-1] == "scp -t ."


def test_every_method_that_asyncssh_asks_for_is_ours() -> None:
    """Its own server opens files of the gateway, so nothing of it may be inherited."""
    source = inspect.getsource(SFTPServerHandler)
    asked = {each.split("(")[0] for each in source.split("self._server.")[1:]}
    versions_above_3 = {"open56", "lock", "unlock", "lsetstat"}
    assert {each for each in asked if not hasattr(SftpFiles, each)} == versions_above_3
    assert SftpFiles.__mro__ == (SftpFiles, object)


@pytest.mark.parametrize("way", ["sftp", "scp -t a", "scp -f a"])
async def test_a_caller_that_asks_for_nothing_ends_no_other_session(
    tmp_path: Path, way: str
) -> None:
    async with (
        ssh_world(tmp_path, options=OVER_SH) as world,
        await world.login() as connection,
    ):
        wanted: dict[str, Any] = {"subsystem": way} if way == "sftp" else {"command": way}
        async with asyncio.timeout(20):
            await connection.run(stdin=asyncssh.DEVNULL, **wanted)
        assert (await connection.run("echo still here")).stdout == "still here\n"
