"""The images that a node has before its first Pod, made once for each state of the project."""

import hashlib
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

import attrs

from gpuruntime.settings.schema import HelperSettings
from tests.proofs.real_cluster import binaries as cache
from tests.proofs.real_file_server import binaries as file_server
from tests.proofs.real_node import binaries
from tests.proofs.real_node.configuration import PAUSE_IMAGE
from tests.proofs.real_node.images import containerfile, root_folders
from tests.proofs.real_node.images.oci_archive import Image, pack

PROJECT = Path(__file__).parents[4]
CONTAINERFILE = PROJECT / "Containerfile"
MAKERS = ("root_folders.py", "oci_archive.py", "preloaded.py", "containerfile.py")
BUSYBOX = "docker.io/library/busybox:1.36"
PYTHON = "docker.io/library/python:3.12"
FILE_SERVER = HelperSettings().accessorImage
PRODUCT = f"docker.io/library/gpuruntime:{version('gpuruntime')}"


@attrs.frozen
class Images:
    """Archives of images, whose names are those of the real images."""

    folder: Path

    @property
    def archives(self) -> list[Path]:
        return sorted(self.folder.glob("*.tar"))

    def pack(self, archive: Path, image: Image, *layers: str) -> None:
        """Pack another image of these layers, which no node has yet."""
        pack(archive, image, [self.folder / layer for layer in layers])


def find() -> Images:
    """Return the images made last, even if the project has changed since."""
    made = [path for path in cache.cache("node").glob("images-*") if path.is_dir()]
    if not made:
        raise cache.MissingBinariesError("no images are made yet: run `nox -s node`")
    return Images(max(made, key=lambda path: path.stat().st_mtime))


def find_or_make() -> Images:
    """Return the images of this state of the project, and delete all others."""
    recipe = containerfile.read(CONTAINERFILE)
    folder = _folder(recipe)
    for other in folder.parent.glob("images-*"):
        if other.is_dir() and other != folder:
            shutil.rmtree(other, ignore_errors=True)
    programs = binaries.find()
    return Images(cache.made_once(folder, lambda _, output: _make(output, programs, recipe)))


def _make(folder: Path, programs: Path, recipe: containerfile.Recipe) -> None:
    layers: dict[str, Callable[[Path], None]] = {
        "pause": lambda root: root_folders.pause(root, programs),
        "files": root_folders.files,
        "busybox": root_folders.busybox,
        "python": root_folders.python,
        "tools": root_folders.tools,
        "file-server": lambda root: root_folders.file_server(root, file_server.find()),
        "product": lambda root: root_folders.product(root, PROJECT, recipe),
    }
    for name, fill in layers.items():
        fill(folder / name)
    for name, image, parts in _images(recipe):
        pack(folder / f"{name}.tar", image, [folder / part for part in parts])


def _folder(recipe: containerfile.Recipe) -> Path:
    digest = hashlib.sha256(f"{sys.version} {binaries.find().name}".encode())
    for path in _inputs(recipe):
        digest.update(f"{path.relative_to(PROJECT)}\0".encode() + path.read_bytes())
    return cache.cache("node") / f"images-{digest.hexdigest()[:16]}"


def _inputs(recipe: containerfile.Recipe) -> Iterator[Path]:
    yield CONTAINERFILE
    yield from (Path(__file__).with_name(name) for name in MAKERS)
    for source in recipe.sources:
        tree = sorted((PROJECT / source).rglob("*")) or [PROJECT / source]
        yield from (path for path in tree if path.is_file() and path.suffix != ".pyc")


def _images(recipe: containerfile.Recipe) -> Iterable[tuple[str, Image, tuple[str, ...]]]:
    product = Image(
        name=PRODUCT,
        entrypoint=recipe.entrypoint,
        command=recipe.command,
        user=recipe.user,
        environment=recipe.environment,
    )
    server = Image(name=FILE_SERVER, entrypoint=("/bin/serve",))
    return (
        ("pause", Image(name=PAUSE_IMAGE, entrypoint=("/pause",)), ("pause",)),
        ("busybox", Image(name=BUSYBOX, command=("sh",)), ("files", "busybox")),
        ("python", Image(name=PYTHON, command=("python3",)), ("files", "busybox", "python")),
        ("file-server", server, ("files", "file-server")),
        ("product", product, ("files", "python", "product")),
    )


if __name__ == "__main__":
    sys.stdout.write(f"{find_or_make().folder}\n")
