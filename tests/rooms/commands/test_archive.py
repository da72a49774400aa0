"""Archives of hostile units: an entry that leads out of its folder writes nothing there."""

import io
import os
import tarfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gpuruntime.client.errors import UnreadableAnswerError
from gpuruntime.commands.archive import Unpacker, pack

OUTSIDE = "outside"


def entry(name: str, content: bytes = b"", **members: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for member, value in members.items():
        setattr(info, member, value)
    return info, content


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.DIRTYPE, mode=0o755)


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=kind, linkname=target)


def archive(*entries: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as written:
        for info, content in entries:
            written.addfile(info, io.BytesIO(content))
    return file.getvalue()


async def in_pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def unpacked(into: Path, data: bytes, *, size: int = 700) -> list[str]:
    told: list[str] = []
    os.mkdir(into)  # noqa: PTH102 - local
    await Unpacker(into, told.append).unpack(in_pieces(data, size))
    return told


def tree(root: Path) -> dict[str, tuple[int, bytes | str]]:
    """Return by name the mode, and the content or the target of a link."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode & 0o777
        if path.is_symlink():
            found[str(path.relative_to(root))] = (0, str(path.readlink()))
        else:
            found[str(path.relative_to(root))] = (
                mode,
                b"" if path.is_dir() else path.read_bytes(),
            )
    return found


def planted(root: Path) -> Path:
    """Create a folder with odd names, modes, sizes and links."""
    (root / "deep" / ("long" * 40) / ("er" * 100)).mkdir(parents=True)
    (root / "deep" / ("long" * 40) / ("er" * 100) / "end").write_bytes(b"x" * 513)
    (root / "deep").chmod(0o750)
    (root / "empty").write_bytes(b"")
    (root / "block").write_bytes(os.urandom(512))
    (root / "more").write_bytes(os.urandom(300_001))
    (root / "run").write_bytes(b"#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "-rf $(touch x) 'q' \"\n").write_bytes(b"odd")
    (root / os.fsdecode(b"no-utf8-\xff")).write_bytes(b"raw")
    (root / "here").symlink_to("deep/../run")
    (root / "deep" / "up").symlink_to("../run")
    return root


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    return planted(tmp_path / "source")


async def packed(root: Path) -> tuple[bytes, list[str]]:
    pieces, told = [], list[str]()

    async def write(piece: bytes) -> None:
        pieces.append(piece)

    await pack(root, "the-end", write, told.append)
    return b"".join(pieces), told


async def test_a_packed_folder_is_unpacked_as_it_was(source: Path, tmp_path: Path) -> None:
    data, told = await packed(source)
    left_out = await unpacked(tmp_path / "target", data)
    (tmp_path / "target/the-end").unlink()
    (source / "here").unlink()  # its target could lead elsewhere
    assert tree(tmp_path / "target") == tree(source)
    assert (told, left_out) == ([], ["here is left out: it links to deep/../run"])


async def test_tar_itself_reads_what_is_packed(source: Path) -> None:
    data, _ = await packed(source)
    with tarfile.open(fileobj=io.BytesIO(data)) as read:
        names = read.getnames()
    assert (names[0], names[-1]) == (".", "./the-end")
    assert len(names) == len(tree(source)) + 2


async def test_a_pipe_is_left_out_and_told_of(tmp_path: Path) -> None:
    root = tmp_path / "source"
    root.mkdir()
    os.mkfifo(root / "pipe")
    data, told = await packed(root)
    assert await unpacked(tmp_path / "target", data) == []
    assert told == [f"{root / 'pipe'} is left out: it is no file, folder or link"]


FORMS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("size", [1, 511, 512, 100_000])
async def test_every_format_is_read_in_pieces_of_any_size(
    tmp_path: Path, form: int, size: int
) -> None:
    long = "a" * 90 + "/" + "b" * 90
    data = archive(folder("./a"), entry("./a/x", b"1"), entry(long, b"2" * 600), form=form)
    await unpacked(tmp_path / "target", data, size=size)
    assert (tmp_path / "target" / long).read_bytes() == b"2" * 600


async def test_hard_links_and_inner_links_are_kept(tmp_path: Path) -> None:
    data = archive(
        entry("./a", b"x"), link("./b", "./a", tarfile.LNKTYPE), folder("d"), link("d/c", "../a")
    )
    await unpacked(tmp_path / "t", data)
    assert (tmp_path / "t/b").samefile(tmp_path / "t/a")
    assert (tmp_path / "t/d/c").read_bytes() == b"x"


HOSTILE: dict[str, Callable[[], bytes]] = {
    "an absolute name": lambda: archive(entry(f"/tmp/{OUTSIDE}", b"x")),
    "a name above": lambda: archive(entry(f"../{OUTSIDE}", b"x")),
    "a name above, later": lambda: archive(folder("a"), entry(f"a/../../{OUTSIDE}", b"x")),
    "a folder above": lambda: archive(folder(f"../{OUTSIDE}")),
    "a file behind a link": lambda: archive(link("a", "b"), entry("a/x", b"x")),
    "a folder in place of a link": lambda: archive(link("a", "b"), folder("a")),
    "a file in place of a link": lambda: archive(link("a", "b"), entry("a", b"x")),
    "a file behind a file": lambda: archive(entry("a", b"x"), entry("a/b", b"x")),
    "a file twice": lambda: archive(entry("a", b"x"), entry("a", b"y")),
    "a file in place of a folder": lambda: archive(folder("a"), entry("a", b"x")),
    "a file in place of all": lambda: archive(entry(".", b"x")),
    "a hard link above": lambda: archive(link("a", f"../{OUTSIDE}", tarfile.LNKTYPE)),
    "a hard link to an absolute name": lambda: archive(link("a", "/etc/passwd", tarfile.LNKTYPE)),
    "a hard link to a link": lambda: archive(link("b", "c"), link("a", "b", tarfile.LNKTYPE)),
    "a NUL in an extended name": lambda: archive(
        entry("a", b"", pax_headers={"path": "a\0b"}), form=tarfile.PAX_FORMAT
    ),
    "an extended name above": lambda: archive(
        entry("a", b"", pax_headers={"path": f"../{OUTSIDE}"}), form=tarfile.PAX_FORMAT
    ),
    "a huge extended header": lambda: archive(
        entry("a", b"", pax_headers={"comment": "x" * 100_000}), form=tarfile.PAX_FORMAT
    ),
    "a huge long name": lambda: archive(entry("a/" * 50_000, b"")),
    "a size that is none": lambda: archive(
        entry("a", b"", pax_headers={"size": "-1"}), form=tarfile.PAX_FORMAT
    ),
    "a sparse file": lambda: archive(
        entry("a", b"", pax_headers={"GNU.sparse.major": "1"}), form=tarfile.PAX_FORMAT
    ),
    "no archive": lambda: b"x" * 2048,
    "an early end": lambda: archive(entry("a", b"x" * 5000))[:1500],
    "no end": lambda: archive(entry("a", b"x"))[:1024],
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("made", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_archive_is_refused_and_writes_nothing_outside(
    tmp_path: Path, made: Callable[[], bytes]
) -> None:
    with pytest.raises(UnreadableAnswerError, match="the archive of the unit"):
        await unpacked(tmp_path / "target", made())
    assert os.listdir(tmp_path) == ["target"]  # noqa: PTH208 - local
    assert OUTSIDE not in os.listdir("/tmp")  # noqa: PTH208 - local


LEFT_OUT = {
    "an absolute link": link("a", "/etc/passwd"),
    "a link above": link("a", f"../{OUTSIDE}"),
    "a link above, from below": link("d/a", f"../../{OUTSIDE}"),
    "a link down and up again": link("a", "d/../.."),
    "an empty link": link("a", ""),
    "a device": entry("a", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
    "a pipe": entry("a", type=tarfile.FIFOTYPE),
}


@pytest.mark.parametrize("each", LEFT_OUT.values(), ids=LEFT_OUT)
async def test_what_could_lead_elsewhere_is_left_out_and_told_of(
    tmp_path: Path, each: tuple[tarfile.TarInfo, bytes]
) -> None:
    told = await unpacked(tmp_path / "t", archive(folder("d"), each, entry("z", b"z")))
    assert set(tree(tmp_path / "t")) == {"d", "z"}
    assert [f"{each[0].name} is left out" in words for words in told] == [True]


async def test_a_file_never_gets_a_special_mode_and_a_folder_stays_usable(tmp_path: Path) -> None:
    await unpacked(
        tmp_path / "t",
        archive(
            entry("a", b"", mode=0o4777), entry("d", type=tarfile.DIRTYPE, mode=0), entry("d/x")
        ),
    )
    assert {name: mode for name, (mode, _) in tree(tmp_path / "t").items()} == {
        "a": 0o777,
        "d": 0o700,
        "d/x": 0o644,
    }
