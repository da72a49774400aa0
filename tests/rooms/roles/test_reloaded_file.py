"""A file that may be missing is told apart from one that cannot be read."""

import asyncio
from pathlib import Path

import pytest

from gpuruntime.errors import ConfigurationError
from gpuruntime.roles import reloaded_file
from gpuruntime.roles.reloaded_file import ReloadedFile
from tests.eventually import equals, eventually


def followed(path: Path) -> ReloadedFile[bytes]:
    return ReloadedFile(str(path), bytes, what="key file", absent=lambda: b"none")


def unreadable(folder: Path, fault: str) -> Path:
    """Return a path that even root cannot read, whose error is not that it is missing."""
    (folder / "file").write_bytes(b"")
    (folder / "loop").symlink_to("loop")
    paths = {"a long name": "n" * 300, "a loop": "loop", "a file above": "file/x", "a folder": "."}
    return folder / paths[fault]


def test_a_missing_file_has_the_value_of_an_absent_one(tmp_path: Path) -> None:
    assert followed(tmp_path / "x").value == b"none"
    assert followed(tmp_path / "folder" / "x").value == b"none"


@pytest.mark.parametrize("fault", ["a long name", "a loop", "a file above", "a folder"])
def test_a_file_that_cannot_be_read_is_not_absent(tmp_path: Path, fault: str) -> None:
    path = unreadable(tmp_path, fault)
    with pytest.raises(ConfigurationError, match="key file") as caught:
        followed(path)
    assert str(path) in str(caught.value)


def test_a_folder_without_the_right_to_search_it_is_a_fault_of_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may search every folder, so the system call is replaced."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    for call in ("stat", "open"):
        monkeypatch.setattr(Path, call, refuse)
    with pytest.raises(ConfigurationError, match=r"key file .*: Permission denied"):
        followed(tmp_path / "x")


async def test_a_file_that_becomes_unreadable_is_broken_and_the_last_good_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloaded_file, "LOOK_SECONDS", 0.01)
    path = tmp_path / "x"
    file = followed(path)

    def replace_by_loop() -> None:
        (tmp_path / "loop").symlink_to("x")
        (tmp_path / "loop").replace(path)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(file.run(lambda: None))
        await asyncio.sleep(0.05)
        assert not file.is_broken
        replace_by_loop()
        await eventually(lambda: file.is_broken)
        assert file.value == b"none"
        path.unlink()
        path.write_bytes(b"keys")
        await eventually(lambda: (file.value, file.is_broken), equals((b"keys", False)))
        replace_by_loop()
        await eventually(lambda: file.is_broken)
        assert file.value == b"keys"
        task.cancel()
