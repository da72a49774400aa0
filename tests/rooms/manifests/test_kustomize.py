"""The checked-in overlays equal what kubectl renders, and a wheel prints them."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from gpuruntime.manifests import overlays
from tests.proofs.docs.pages import page_of
from tests.proofs.real_cluster import binaries
from tests.rooms.manifests.overlays import MANIFESTS, NAMES

INSTALLED = "import sys; from gpuruntime.cli import main; sys.exit(main(sys.argv[1:]))"
KUBECTL = shutil.which("kubectl")


def kustomized(kubectl: str | Path, overlay: str) -> str:
    return rendered(kubectl, MANIFESTS / "overlays" / overlay)


def rendered(kubectl: str | Path, folder: Path) -> str:
    command = [str(kubectl), "kustomize", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def overlay_elsewhere(folder: Path, overlay: str = "minimal") -> Path:
    """Return an overlay of other namespaces, as docs/install.md shows it, beside the manifests."""
    files = {
        "kustomization.yaml": "components: [gpuruntime/manifests/namespaces]",
        "namespaces.yaml": "name: gpuruntime-namespaces",
    }
    made = overlay_of_page(folder, files)
    path = made / "kustomization.yaml"
    path.write_text(path.read_text().replace("overlays/minimal", f"overlays/{overlay}"))
    return made


def overlay_of_page(folder: Path, files: Mapping[str, str]) -> Path:
    """Write the blocks of docs/install.md that have these words, beside the manifests."""
    shutil.copytree(MANIFESTS, folder / "gpuruntime" / "manifests")
    blocks = [block.text for block in page_of("docs/install.md").blocks]
    for name, words in files.items():
        (text,) = [block for block in blocks if words in block]
        (folder / name).write_text(text)
    return folder


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


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed here")
@pytest.mark.parametrize("overlay", NAMES)
def test_an_overlay_with_other_namespaces_names_no_default_one(
    overlay: str, tmp_path: Path
) -> None:
    assert KUBECTL is not None
    text = rendered(KUBECTL, overlay_elsewhere(tmp_path, overlay))
    assert re.findall(r"(?<!gpu)runtime-(?:stock|instance|system)", text) == []
    documents = list(yaml.safe_load_all(text))
    names = {each["metadata"]["name"] for each in documents if each["kind"] == "Namespace"}
    assert names == {"cloud-stock", "cloud-instance", "cloud-system"}
    assert "gpuruntime-namespaces" not in {
        each["metadata"]["name"] for each in documents if each["kind"] == "ConfigMap"
    }


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed here")
def test_the_overlay_of_the_page_with_a_gateway_gives_its_address_to_every_role(
    tmp_path: Path,
) -> None:
    assert KUBECTL is not None
    files = {"kustomization.yaml": "manifests/gateway-exec]"}
    path = overlay_of_page(tmp_path, files) / "kustomization.yaml"
    path.write_text(path.read_text().replace("*.units.example.com", "*.units.here.example"))
    documents = list(yaml.safe_load_all(rendered(KUBECTL, tmp_path)))
    maps = {each["metadata"]["name"]: each for each in documents if each["kind"] == "ConfigMap"}
    addresses = {}
    for each in documents:
        if each["kind"] == "Deployment":
            [container] = each["spec"]["template"]["spec"]["containers"]
            [variable] = container["env"]
            source = variable["valueFrom"]["configMapKeyRef"]
            addresses[container["name"]] = maps[source["name"]]["data"][source["key"]]
    assert addresses == dict.fromkeys(
        ("manager", "api", "gateway"), "https://*.units.here.example"
    )


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
