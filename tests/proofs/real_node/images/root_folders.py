"""The root folders of the images: a busybox, this machine's Python, and the product.

Python is copied from the running interpreter, so it is always present, and pip installs the right
wheels for it.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.proofs.real_cluster import binaries
from tests.proofs.real_node.images.containerfile import Recipe

PREFIX = Path("usr/local")
# No program of an image needs these; together they are more than half of a Python.
UNUSED = ("test", "idlelib", "lib2to3", "tkinter", "turtledemo", "ensurepip", "site-packages")
# Any wheel may need these. If libc includes them, they are stubs.
FOR_WHEELS = (
    *("libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "libutil.so.1"),
    *("libgcc_s.so.1", "libstdc++.so.6"),
)
ACCOUNTS = "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
GROUPS = "root:x:0:\nnogroup:x:65534:\n"
_LIBRARY = re.compile(r"(?:=> )?(?P<path>/\S+) \(0x")


class RootError(Exception):
    pass


def pause(root: Path, programs: Path) -> None:
    root.mkdir()
    shutil.copy(programs / "pause", root / "pause")


def files(root: Path) -> None:
    """Create the folders and files that programs expect under every root."""
    for name in ("etc", "tmp", "proc", "sys", "dev", "run", "usr/bin", "var/tmp"):
        (root / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    (root / "etc/passwd").write_text(ACCOUNTS)
    (root / "etc/group").write_text(GROUPS)
    (root / "etc/nsswitch.conf").write_text("hosts: files dns\n")


def busybox(root: Path) -> None:
    program = root / "bin/busybox"
    program.parent.mkdir(parents=True)
    shutil.copy(_packaged("busybox-static", "bin/busybox"), program)
    for name in _run([str(program), "--list"]).split():
        if name != "busybox":
            (program.parent / name).symlink_to("busybox")
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/env").symlink_to("../../bin/busybox")


def python(root: Path) -> None:
    """Copy the standard library with its byte code, and the shared libraries that it needs."""
    version = f"python{sysconfig.get_python_version()}"
    prefix = root / PREFIX
    (prefix / "bin").mkdir(parents=True)
    shutil.copy(Path(sys.executable).resolve(), prefix / "bin" / version)
    for name in ("python3", "python"):
        (prefix / "bin" / name).symlink_to(version)
    library = prefix / "lib" / version
    skipped = shutil.ignore_patterns(*UNUSED, "__pycache__", "config-*", "_tkinter*")
    shutil.copytree(sysconfig.get_path("stdlib"), library, symlinks=True, ignore=skipped)
    (library / "site-packages").mkdir()
    compile_all(library)
    _add_libraries(root, [prefix / "bin" / version, *library.rglob("*.so")])


def tools(root: Path) -> None:
    """Add git, and OpenSSH's server of SFTP at the path that Debian gives it."""
    git = shutil.which("git")
    if git is None:
        raise RootError("git is not found: install it")
    server = root / "usr/lib/openssh/sftp-server"
    server.parent.mkdir(parents=True)
    shutil.copy(_packaged("openssh-sftp-server", "usr/lib/openssh/sftp-server"), server)
    (root / "usr/bin").mkdir()
    shutil.copy(git, root / "usr/bin/git")
    for name in ("git-upload-pack", "git-receive-pack"):
        (root / "usr/bin" / name).symlink_to("git")
    _add_libraries(root, [Path(git), server])


def file_server(root: Path, program: Path) -> None:
    (root / "bin").mkdir(parents=True)
    shutil.copy(program, root / "bin/serve")
    _add_libraries(root, [program])


def product(root: Path, project: Path, recipe: Recipe) -> None:
    """Install the product as the Containerfile's first stage does, from the named sources only."""
    with tempfile.TemporaryDirectory(prefix="gpuruntime-sources-") as folder:
        for source in recipe.sources:
            _copy(project / source, Path(folder) / source)
        _run(
            [
                *(sys.executable, "-m", "pip", "install", "-q", "--no-compile"),
                *("--ignore-installed", "--no-warn-script-location"),
                *("--root", str(root), "--prefix", str(recipe.prefix)),
                f"{folder}{recipe.extras}",
            ]
        )
    installed = root / recipe.prefix.relative_to("/")
    _remove_traces_of_the_build(installed)
    _make_environment(installed, recipe.prefix)
    compile_all(installed)


def compile_all(folder: Path) -> None:
    """Compile with unchecked hashes: the bytes are the same each time, whatever a file's mtime."""
    mode = ("--invalidation-mode", "unchecked-hash")
    strip = ("-s", str(folder), "-p", "/")
    _run([sys.executable, "-m", "compileall", "-q", *mode, *strip, str(folder)])


def _packaged(package: str, path: str) -> Path:
    """Return a program of a package of the distribution, which need not be installed."""
    name = Path(path).name

    def fill(work: Path, output: Path) -> None:
        _run(["apt-get", "download", "-qq", package], work)
        [found] = work.glob(f"{package}_*.deb")
        _run(["dpkg-deb", "-x", str(found), str(work / "unpacked")])
        shutil.copy(work / "unpacked" / path, output)

    return binaries.made_once(binaries.cache("node") / name, fill) / name


def _add_libraries(root: Path, programs: Iterable[Path]) -> None:
    """Copy libraries to their own paths, and those of a private prefix beside libc."""
    found = set(_libraries(programs))
    [home] = {path.parent for path in found if path.name.startswith("libc.so")}
    found |= {home / name for name in FOR_WHEELS if (home / name).exists()}
    private = Path(sys.base_prefix)
    for path in found:
        folder = home if private != Path("/usr") and path.is_relative_to(private) else path.parent
        target = root / folder.relative_to("/") / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def _libraries(programs: Iterable[Path]) -> Iterator[Path]:
    for line in _run(["ldd", *map(str, programs)]).splitlines():
        if found := _LIBRARY.search(line):
            yield Path(found["path"])


def _remove_traces_of_the_build(installed: Path) -> None:
    """Remove the name of the folder that was installed from, which differs each time."""
    for path in installed.rglob("gpuruntime-*.dist-info/*"):
        if path.name == "direct_url.json":
            path.unlink()
        if path.name == "RECORD":
            lines = path.read_text().splitlines(keepends=True)
            path.write_text("".join(one for one in lines if "direct_url.json" not in one))


def _make_environment(installed: Path, prefix: Path) -> None:
    """Make the folder a virtual environment whose scripts start with its own Python."""
    (installed / "pyvenv.cfg").write_text(f"home = /{PREFIX}/bin\n")
    for script in (installed / "bin").iterdir():
        text = script.read_text()
        if text.startswith("#!"):
            script.write_text(f"#!{prefix}/bin/python\n" + text.partition("\n")[2])
    (installed / "bin/python").symlink_to(f"/{PREFIX}/bin/python")


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def _run(command: list[str], folder: Path | None = None) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RootError(f"{' '.join(command)[:200]} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout
