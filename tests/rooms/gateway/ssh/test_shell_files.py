"""Files over a real `sh`: every operation, every kind of name, and the faults that come back."""

import os
import stat
import time
from pathlib import Path

import pytest

from gpuruntime.gateway.ssh.shell_files import (
    Change,
    Fault,
    FileError,
    OpenMode,
    ShellFiles,
    operand,
)
from tests.rooms.gateway.ssh.local_container import LocalContainer

NEW = OpenMode(creates=True, truncates=True, permissions=0o666)
NAMES = {
    "a space": b"a b",
    "quotes": b'it\'s "quoted"',
    "a newline": b"line\nbreak",
    "a newline first": b"\nfirst",
    "a newline last": b"last\n",
    "an option": b"-rf",
    "an option of find": b"-delete",
    "standard input": b"-",
    "an assignment": b"of=x",
    "a command": b"$(touch pwned)`touch pwned`;touch pwned",
    "a glob": b"*?[a]",
    "a backslash": b"back\\slash\\n",
    "percents": b"%n%d",
    "umlauts": "gruß".encode(),
    "what is no UTF-8": b"caf\xe9\xff%s",
    "no UTF-8 and a newline last": b"\xff\n",
    "255 bytes": b"x" * 255,
}


@pytest.fixture
def files(tmp_path: Path) -> ShellFiles:
    return ShellFiles(LocalContainer(tmp_path))


async def refusal_of(files: ShellFiles, path: bytes) -> FileError:
    with pytest.raises(FileError) as caught:
        await files.attributes(path, follows=True)
    return caught.value


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_every_name_is_created_listed_renamed_and_removed(
    files: ShellFiles, tmp_path: Path, name: bytes
) -> None:
    await files.prepare(name, NEW)
    assert [each for each, _ in await files.listing(b".")] == [name]
    assert (await files.attributes(name, follows=True)).size == 0
    assert await files.real_path(name) == os.fsencode(tmp_path) + b"/" + name
    await files.rename(name, b"plain", replaces=False)
    await files.rename(b"plain", name, replaces=True)
    await files.make_link(name, b"link")
    assert await files.read_link(b"link") == name
    await files.change(name, Change(permissions=0o600, modified_at=86_400))
    await files.remove(name)
    await files.remove(b"link")
    await files.make_folder(name, 0o700)
    assert list(await files.listing(name)) == []
    await files.remove_folder(name)
    assert list(os.scandir(tmp_path)) == []


async def test_the_attributes_are_those_of_the_file(files: ShellFiles, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"12345")
    file.chmod(0o640)
    os.utime(file, (1_000_000_000, 1_100_000_000))
    (tmp_path / "link").symlink_to("a")
    found = await files.attributes(b"link", follows=True)
    assert (found.size, found.mode) == (5, stat.S_IFREG | 0o640)
    assert (found.user, found.group) == (os.getuid(), os.getgid())
    assert (found.accessed_at, found.modified_at) == (1_000_000_000, 1_100_000_000)
    assert stat.S_ISLNK((await files.attributes(b"link", follows=False)).mode)


async def test_a_listing_has_hidden_files_folders_and_links(
    files: ShellFiles, tmp_path: Path
) -> None:
    (tmp_path / ".hidden").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/inner").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    listed = {name: stat.S_IFMT(found.mode) for name, found in await files.listing(b".")}
    assert listed == {b".hidden": stat.S_IFREG, b"folder": stat.S_IFDIR, b"dangling": stat.S_IFLNK}


async def test_relative_paths_begin_at_the_home(files: ShellFiles, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert await files.real_path(b".") == os.fsencode(tmp_path)
    assert await files.real_path(b"folder/../folder/new") == os.fsencode(tmp_path / "folder/new")
    assert await files.real_path(b"/") == b"/"


async def test_the_real_path_is_found_without_readlink(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sh").symlink_to("/bin/sh")
    files = ShellFiles(LocalContainer(tmp_path, paths=str(programs)))
    assert await files.real_path(b"new") == os.fsencode(tmp_path / "new")
    assert await files.real_path(b"/new") == b"/new"


async def test_new_files_and_folders_have_the_permissions_that_the_umask_leaves(
    tmp_path: Path,
) -> None:
    files = ShellFiles(LocalContainer(tmp_path, umask=0o027))
    await files.prepare(b"file", OpenMode(creates=True, permissions=0o777))
    await files.make_folder(b"folder", 0o777)
    await files.prepare(b"plain", OpenMode(creates=True))
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in os.scandir(tmp_path)}
    assert modes == {"file": 0o750, "folder": 0o750, "plain": 0o640}


async def test_an_existing_file_keeps_its_permissions_and_is_emptied_only_if_asked(
    files: ShellFiles, tmp_path: Path
) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"content")
    file.chmod(0o600)
    await files.prepare(b"a", OpenMode(creates=True, permissions=0o644))
    assert file.read_bytes() == b"content"
    await files.prepare(b"a", OpenMode(truncates=True, permissions=0o644))
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"", 0o600)


async def test_every_attribute_can_be_changed(files: ShellFiles, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"12345")
    owner = (os.getuid(), os.getgid())
    change = Change(
        size=3, permissions=0o604, owner=owner, accessed_at=951_782_400, modified_at=4_102_444_799
    )
    await files.change(b"a", change)
    found = file.stat()
    assert (file.read_bytes(), stat.S_IMODE(found.st_mode)) == (b"123", 0o604)
    assert (int(found.st_atime), int(found.st_mtime)) in {
        (951_782_400, 4_102_444_799),  # reading it has set the first, unless the mount keeps it
        (int(found.st_atime), 4_102_444_799),
    }
    await files.change(b"a", Change(size=8))
    assert file.read_bytes() == b"123\0\0\0\0\0"


async def test_a_rename_replaces_what_rename_of_the_kernel_replaces(
    files: ShellFiles, tmp_path: Path
) -> None:
    for name in ("empty", "full", "moved"):
        (tmp_path / name).mkdir()
    (tmp_path / "full/file").touch()
    (tmp_path / "link").symlink_to("full")
    (tmp_path / "file").write_bytes(b"x")
    await files.rename(b"moved", b"empty", replaces=True)
    assert list(os.scandir(tmp_path / "empty")) == []
    await files.rename(b"file", b"link", replaces=True)
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "link").read_bytes() == b"x"
    for old, new in ((b"link", b"full"), (b"empty", b"full")):
        with pytest.raises(FileError):
            await files.rename(old, new, replaces=True)


async def test_a_hard_link_is_the_same_file(files: ShellFiles, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    await files.make_hard_link(b"a", b"b")
    assert (tmp_path / "b").samefile(tmp_path / "a")


async def test_the_free_space_is_that_of_the_file_system(
    files: ShellFiles, tmp_path: Path
) -> None:
    found = os.statvfs(tmp_path)
    size, blocks, *_, longest = await files.free_space(b".")
    assert (size * blocks, longest) == (found.f_frsize * found.f_blocks, found.f_namemax)


async def test_faults_are_told_apart(files: ShellFiles, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "folder").mkdir()
    found = {}
    for words, asking in {
        "attributes of nothing": files.attributes(b"nothing", follows=True),
        "a link's target that is gone": files.read_link(b"nothing"),
        "reading nothing": files.check_readable(b"nothing"),
        "writing without creating": files.prepare(b"nothing", OpenMode(truncates=True)),
        "a file in no folder": files.prepare(b"no/file", NEW),
        "listing nothing": files.listing(b"nothing"),
        "removing nothing": files.remove(b"nothing"),
        "resizing nothing": files.change(b"nothing", Change(size=0)),
        "a new folder that is there": files.make_folder(b"folder", None),
        "a new link that is there": files.make_link(b"x", b"folder"),
        "a new file that is there": files.prepare(b"a", OpenMode(creates=True, is_exclusive=True)),
        "a rename onto a file": files.rename(b"folder", b"a", replaces=False),
        "reading a folder": files.check_readable(b"folder"),
        "writing a folder": files.prepare(b"folder", NEW),
        "listing a file": files.listing(b"a"),
    }.items():
        with pytest.raises(FileError) as caught:
            await asking
        found[words] = caught.value.fault
    kinds = [Fault.MISSING] * 8 + [Fault.EXISTS] * 4 + [Fault.OTHER] * 3
    assert found == dict(zip(found, kinds, strict=True))


async def test_a_path_of_4_kib_is_the_longest(files: ShellFiles, tmp_path: Path) -> None:
    deep = os.fsencode(tmp_path) + b"/." * ((4096 - len(os.fsencode(tmp_path))) // 2)
    assert 4094 <= len(deep) <= 4096
    assert (await refusal_of(files, deep)).fault is Fault.OTHER  # "File name too long"
    assert (await files.attributes(deep[:4094].rstrip(b"/"), follows=True)).size >= 0
    for path in (b"x" * 4097, b"nu\0l"):
        with pytest.raises(FileError, match="no path has NUL or more than 4096 bytes"):
            operand(path)


async def test_an_image_without_the_programs_says_so(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    without_sh = ShellFiles(LocalContainer(tmp_path, paths=str(bare)))
    assert "sh" in str(await refusal_of(without_sh, b"a"))
    (bare / "sh").symlink_to("/bin/sh")
    assert "the image lacks a program" in str(await refusal_of(without_sh, b"a"))
    with pytest.raises(FileError, match="the image lacks a program"):
        await without_sh.listing(b".")


def fake(folder: Path, name: str, script: str) -> LocalContainer:
    """Return a container in which a program is replaced by a script."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / name).write_text(f"#!/bin/sh\n{script}\n")
    (programs / name).chmod(0o755)
    return LocalContainer(folder, paths=f"{programs}:{os.environ['PATH']}")


@pytest.mark.parametrize("piece", [b"a", b"1 1 1 1 1 1 ./", b"1 ", b"0 0 0 0 0 0 ./a/"], ids=repr)
async def test_output_that_is_no_listing_is_refused_in_linear_time(
    tmp_path: Path, piece: bytes
) -> None:
    """The image is the tenant's, and its programs print what they like."""
    (tmp_path / "printed").write_bytes(piece * (1024 * 1024 // len(piece)))
    files = ShellFiles(fake(tmp_path, "find", f"cat {tmp_path}/printed"))
    listed = await files.listing(b".")
    began_at = time.process_time()
    with pytest.raises(FileError, match="the image's find or stat says"):
        list(listed)
    assert time.process_time() - began_at < 1.0, "a quadratic search takes half an hour"


async def test_a_space_that_is_no_numbers_is_a_fault(tmp_path: Path) -> None:
    files = ShellFiles(fake(tmp_path, "stat", "echo a lot"))
    with pytest.raises(FileError, match="the image's stat says 'a lot"):
        await files.free_space(b".")
