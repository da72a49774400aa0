"""The checked-in overlays equal what kubectl renders, and a wheel prints them."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gpuruntime.manifests import overlays
from tests.proofs.real_cluster import binaries
from tests.rooms.manifests.overlays import MANIFESTS, NAMES

INSTALLED = "import sys; from gpuruntime.cli import main; sys.exit(main(sys.argv[1:]))"
KUBECTL = shutil.which("kubectl")


def kustomized(kubectl: str | Path, overlay: str) -> str:
    command = [str(kubectl), "kustomize", str(MANIFESTS / "overlays" / overlay)]
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


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed here")
@pytest.mark.parametrize("overlay", NAMES)
def test_an_installed_kubectl_renders_the_same(overlay: str) -> None:
    assert KUBECTL is not None
    assert overlays.text_of(overlays.Overlay(overlay)) == kustomized(KUBECTL, overlay)


@pytest.mark.cluster
@pytest.mark.parametrize("overlay", NAMES)
def test_the_kubectl_of_the_cluster_renders_the_same(overlay: str) -> None:
    kubectl = binaries.find() / "kubectl"
    assert overlays.text_of(overlays.Overlay(overlay)) == kustomized(kubectl, overlay)


@pytest.mark.cluster
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
    assert done.stdout == overlays.text_of(overlays.Overlay(overlay))
