"""Copies into a unit and out of it, which are whole under their name or not there."""

import os
import shlex
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import pytest_asyncio

from gpuruntime.commands.copying import _STORE_FILE, _STORE_FOLDER
from tests.rooms.client.gateway import Site, reachable
from tests.rooms.client.servers import client_of
from tests.rooms.commands.running import Output, run_command
from tests.rooms.commands.test_archive import planted, tree


@attrs.frozen
class Places:
    """A folder of this machine, and the working folder of the unit."""

    site: Site
    here: Path
    there: Path

    async def cp(self, source: str | Path, target: str | Path, *flags: str) -> Output:
        words = shlex.join(("units", "cp", *flags, str(source), str(target)))
        return await run_command(words, self.site.address)


@pytest_asyncio.fixture
async def places(tmp_path: Path) -> AsyncIterator[Places]:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    async with reachable(there) as site:
        yield Places(site, here, there)


ODD = "-rf $(touch planted) 'q' \"d\"\n*"


@pytest.mark.parametrize("name", ["plain", ODD], ids=["a plain name", "a name for a shell"])
async def test_a_file_goes_both_ways_with_its_mode(places: Places, name: str) -> None:
    content = os.urandom(200_001)
    (places.here / name).write_bytes(content)
    (places.here / name).chmod(0o751)
    assert (await places.cp(places.here / name, f"demo:{name}")).code == 0
    there = places.there / name
    assert (there.read_bytes(), there.stat().st_mode & 0o777) == (content, 0o751)
    back = places.here / "back"
    assert (await places.cp(f"demo:{name}", back)).code == 0
    assert (back.read_bytes(), back.stat().st_mode & 0o777) == (content, 0o751)
    assert {each.name for each in places.there.iterdir()} == {name}


async def test_a_folder_goes_both_ways_and_into_one_that_is_there(places: Places) -> None:
    source = places.here / "source"
    source.mkdir()
    planted(source)
    (source / "here").unlink()
    assert (await places.cp(source, "demo:copy", "-r")).code == 0
    assert tree(places.there / "copy") == tree(source)
    assert (await places.cp("demo:copy", places.here / "back", "-r")).code == 0
    assert tree(places.here / "back") == tree(source)
    # Into folders that exist, where one of the files is another.
    (places.there / "source").mkdir()
    (places.there / "source/run").write_bytes(b"other")
    (places.there / "source/kept").write_bytes(b"kept")
    assert (await places.cp(source, "demo:", "-r")).code == 0
    (places.there / "source/kept").unlink()
    assert tree(places.there / "source") == tree(source)
    (places.here / "back/empty").write_bytes(b"changed")
    assert (await places.cp("demo:copy/.", places.here / "back", "-r")).code == 0
    assert tree(places.here / "back") == tree(source)
    assert {each.name for each in places.there.iterdir()} == {"copy", "source"}
    assert {each.name for each in places.here.iterdir()} == {"back", "source"}


async def test_a_file_goes_into_a_folder_under_its_own_name(places: Places) -> None:
    (places.here / "x").write_text("x")
    (places.there / "folder").mkdir()
    assert (await places.cp(places.here / "x", "demo:folder")).code == 0
    assert (await places.cp(places.here / "x", "demo:")).code == 0
    assert (places.there / "folder/x").read_text() == (places.there / "x").read_text() == "x"
    (places.here / "x").unlink()
    assert (await places.cp(f"demo:{places.there}/folder/x", places.here)).code == 0
    assert (places.here / "x").read_text() == "x"


REFUSED = {
    "a folder without -r": ("demo:folder", "here", 1, "is a folder: copy it with -r"),
    "a local folder without -r": (".", "demo:x", 2, "is a folder: copy it with -r"),
    "what is missing there": ("demo:missing", "here", 1, "./missing does not exist"),
    "what is missing here": ("missing", "demo:x", 2, "missing: No such file"),
    "a device": ("demo:/dev/null", "here", 1, "/dev/null is no file and no folder"),
    "onto a device": ("file", "demo:/dev/null", 1, "/dev/null is there, and is no file"),
    "into a missing folder": ("file", "demo:nowhere/", 1, "nowhere"),
    "two units": ("demo:x", "other:y", 2, "one of the two has to be in a unit"),
    "no unit": ("./de:mo", "y", 2, "one of the two has to be in a unit"),
}


@pytest.mark.parametrize(("source", "target", "code", "words"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_copied_is_said(
    places: Places,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    target: str,
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(places.here)
    (places.here / "file").write_text("x")
    (places.there / "folder").mkdir()
    output = await places.cp(source, target)
    assert (output.code, words in output.err, output.err.count("\n")) == (code, True, 1), output
    assert [each.name for each in places.here.iterdir()] == ["file"]


async def test_a_transfer_that_is_cut_leaves_the_old_file(places: Places) -> None:
    (places.there / "x").write_bytes(b"new" * 1_000_000)
    (places.here / "x").write_bytes(b"old")
    places.site.cut_after = 100_000
    output = await places.cp("demo:x", places.here / "x")
    assert output.code == 3
    output = await places.cp("demo:.", places.here / "x-folder", "-r")
    assert output.code == 3
    assert tree(places.here) == {"x": (0o644, b"old")}


async def test_an_input_that_ends_early_is_never_taken_for_the_whole(places: Places) -> None:
    """Run the scripts by themselves, as their input ends when a connection is cut."""
    (places.there / "x").write_bytes(b"old")
    for script, more in ((_STORE_FILE, ("600", "9")), (_STORE_FOLDER, ("the-end",))):
        command = ("sh", "-c", script, "cp", "./x" if more[0] == "600" else "./y", "", *more)
        async with (
            client_of(places.site.address) as client,
            client.exec("demo", command) as process,
        ):
            await process.write(b"part" if more[0] == "600" else bytes(1024))
            await process.end_input()
            assert await process.wait() == 1
    assert tree(places.there) == {"x": (0o644, b"old")}


async def test_the_image_needs_tar_for_folders_alone(places: Places, tmp_path: Path) -> None:
    few = tmp_path / "bin"
    few.mkdir()
    for name in ("sh", "cat", "mv", "rm", "wc", "chmod", "stat"):
        found = shutil.which(name)
        assert found is not None
        (few / name).symlink_to(found)
    places.site.programs.path = str(few)
    (places.here / "x").write_text("x")
    assert (await places.cp(places.here / "x", "demo:x")).code == 0
    assert (await places.cp("demo:x", places.here / "y")).code == 0
    output = await places.cp(places.here, "demo:z", "-r")
    assert (output.code, "folders need tar" in output.err) == (1, True)


async def test_links_of_the_target_are_not_followed(places: Places, tmp_path: Path) -> None:
    (places.there / "tree/sub").mkdir(parents=True)
    (places.there / "tree/sub/x").write_text("x")
    outside = tmp_path / "outside"
    outside.mkdir()
    (places.here / "tree").mkdir()
    (places.here / "tree/sub").symlink_to(outside)
    output = await places.cp("demo:tree", places.here, "-r")
    assert (output.code, "is a link, which is not followed" in output.err) == (2, True)
    assert list(outside.iterdir()) == []
