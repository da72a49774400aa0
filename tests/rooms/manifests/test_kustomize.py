"""The program prints what kustomize makes of the same files, also from a wheel."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gpuruntime.manifests import overlays
from tests.proofs.real_cluster import binaries
from tests.rooms.manifests.overlays import MANIFESTS, NAMES

pytestmark = pytest.mark.cluster

INSTALLED = "import sys; from gpuruntime.cli import main; sys.exit(main(sys.argv[1:]))"


def kustomized(overlay: str) -> str:
    command = [
        str(binaries.find() / "kubectl"),
        "kustomize",
        str(MANIFESTS / "overlays" / overlay),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the unpacked wheel, away from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = ("wheel", "-q", "--no-deps", "--wheel-dir", str(folder), str(MANIFESTS.parent))
    subprocess.run([sys.executable, "-m", "pip", *build], check=True)
    [packed] = folder.glob("*.whl")
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


@pytest.mark.parametrize("overlay", NAMES)
def test_the_output_equals_that_of_kustomize_byte_for_byte(overlay: str) -> None:
    assert overlays.render(overlays.Overlay(overlay)) == kustomized(overlay)


@pytest.mark.parametrize("overlay", NAMES)
def test_an_installed_wheel_prints_the_same_without_kubectl(overlay: str, wheel: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INSTALLED, "manifests", overlay],
        cwd=wheel,
        env={**os.environ, "PATH": "", "PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == kustomized(overlay)
