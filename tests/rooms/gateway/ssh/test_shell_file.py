"""Contents of files over a real `sh`: bytes are equal, and a lost write is never a success."""

import random
from pathlib import Path

import pytest

from gpuruntime.gateway.ssh.shell_file import LARGEST_READ, ShellFile
from gpuruntime.gateway.ssh.shell_files import Fault, FileError
from tests.rooms.gateway.ssh.local_container import LocalContainer

CONTENT = random.Random(7).randbytes(300_000)


async def read_all(file: ShellFile, size: int, start: int = 0) -> bytes:
    read = b""
    while data := await file.read(start + len(read), size):
        read += data
    return read


@pytest.mark.parametrize("size", [1000, 32_768, 262_144, LARGEST_READ])
async def test_reading_from_the_front_is_one_cat(tmp_path: Path, size: int) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    container = LocalContainer(tmp_path)
    file = ShellFile(container, b"a")
    assert await read_all(file, size) == CONTENT
    assert len(container.executed) == 1
    await file.finish()


async def test_a_piece_is_short_only_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    file = ShellFile(LocalContainer(tmp_path), b"a")
    pieces = [await file.read(offset, 100_001) for offset in range(0, 400_000, 100_001)]
    assert [len(each) for each in pieces] == [100_001, 100_001, 99_998, 0]
    await file.finish()


async def test_a_read_that_is_cut_off_is_repeated_once_for_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    container = LocalContainer(tmp_path, cut_off=1)
    file = ShellFile(container, b"a")
    assert await read_all(file, 20_000) == CONTENT
    assert len(container.executed) == 2
    container = LocalContainer(tmp_path, cut_off=2)
    file = ShellFile(container, b"a")
    with pytest.raises(FileError, match="cut off"):
        await read_all(file, LARGEST_READ)
    assert len(container.executed) == 2
    await file.finish()


async def test_jumps_read_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    container = LocalContainer(tmp_path)
    file = ShellFile(container, b"a")
    for offset in (0, 65_535, 65_536, 65_537, 299_999, 1, 131_072):
        assert await file.read(offset, 10) == CONTENT[offset : offset + 10], offset
    await file.finish()


async def test_behind_the_end_there_is_nothing_and_no_program_is_run_for_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "a").write_bytes(b"1234")
    container = LocalContainer(tmp_path)
    file = ShellFile(container, b"a")
    assert await file.read(0, 100) == b"1234"
    count = len(container.executed)
    assert [await file.read(offset, 100) for offset in (4, 100, 10**12)] == [b""] * 3
    assert len(container.executed) == count
    assert await file.read(1, 2) == b"23"
    await file.finish()


async def test_a_first_read_behind_the_end_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1234")
    assert await ShellFile(LocalContainer(tmp_path), b"a").read(70_000, 10) == b""


async def test_writing_from_the_front_is_one_cat(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    container = LocalContainer(tmp_path)
    file = ShellFile(container, b"a")
    for offset in range(0, len(CONTENT), 32_768):
        await file.write(offset, CONTENT[offset : offset + 32_768])
    await file.finish()
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert len(container.executed) == 1


async def test_jumps_write_there_and_leave_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    expected = bytearray(CONTENT)
    file = ShellFile(LocalContainer(tmp_path), b"a")
    for offset in (65_537, 0, 299_995, 131_072, 65_536, 1, 400_000):
        expected.extend(b"\0" * (offset + 10 - len(expected)))
        expected[offset : offset + 10] = b"0123456789"
        await file.write(offset, b"0123456789")
    await file.finish()
    assert (tmp_path / "a").read_bytes() == expected


async def test_what_was_written_is_read_through_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    file = ShellFile(LocalContainer(tmp_path), b"a")
    await file.write(0, b"first")
    assert await file.read(1, 3) == b"irs"
    await file.write(5, b" second")
    assert await file.read(0, 100) == b"first second"
    await file.finish()


async def test_appending_ignores_the_offset(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old ")
    container = LocalContainer(tmp_path)
    file = ShellFile(container, b"a", appends=True)
    await file.write(0, b"new ")
    await file.write(0, b"newer")
    await file.finish()
    assert (tmp_path / "a").read_bytes() == b"old new newer"
    assert len(container.executed) == 1


async def test_a_write_that_did_not_reach_the_file_is_no_success() -> None:
    full = ShellFile(LocalContainer(Path("/")), b"/dev/full")
    await full.write(0, CONTENT)
    with pytest.raises(FileError, match="No space left on device"):
        await full.finish()


async def test_a_file_that_cannot_be_opened_is_told_when_it_is_read_or_finished(
    tmp_path: Path,
) -> None:
    file = ShellFile(LocalContainer(tmp_path), b"none/a")
    for offset in (0, 5):
        with pytest.raises(FileError) as caught:
            await file.read(offset, 1)
        assert caught.value.fault is Fault.MISSING
        await file.write(offset, b"x")
        with pytest.raises(FileError) as caught:
            await file.finish()
        assert caught.value.fault is Fault.MISSING
