"""The page docs/install.md, followed to its end and back on a cluster without the product.

This module has to run before all others that run the product on the node. At its end it has
removed everything that it installed.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import yaml

from tests.proofs.docs.pages import ROOT, page_of
from tests.proofs.docs.walking import NODE, Walk
from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_node import pods
from tests.proofs.real_node.deployment import MANAGER
from tests.proofs.real_node.node import Node

pytestmark = pytest.mark.node

PAGE = page_of("docs/install.md")
OURS = "namespaces,crds,clusterroles,clusterrolebindings,priorityclasses"
GUARDS = "validatingadmissionpolicies,validatingadmissionpolicybindings"
URL = "http://unit-demo-instance.runtime-instance.svc.cluster.local:8080"


@pytest.fixture
def folder(place: Path) -> Iterator[Path]:
    """Yield a checkout with an overlay beside it, as the page shows it."""
    folder = place / "newcomer"
    for name in ("manifests", "examples"):
        shutil.copytree(ROOT / name, folder / "gpuruntime" / name)
    (overlay,) = (each.text for each in PAGE.blocks if "newName" in each.text)
    (folder / "kustomization.yaml").write_text(here(overlay))
    (folder / "manager.yaml").write_text(yaml.safe_dump(MANAGER))
    yield folder
    shutil.rmtree(folder)


def here(text: str) -> str:
    """Replace the registry's image by the one that the node has already."""
    return text.replace("registry.example.com/gpuruntime", "gpuruntime")


def test_the_page_installs_a_unit_that_answers_and_removes_everything(
    plane: ControlPlane, real_node: Node, folder: Path
) -> None:
    del real_node
    before = names(plane)
    assert not any("gpuruntime" in name for name in before)
    programs = (plane.layout.binaries, Path(sys.executable).parent)
    walk = Walk(
        folder=folder,
        environment={
            "KUBECONFIG": str(plane.kubeconfig),
            "PATH": os.pathsep.join((*map(str, programs), os.environ["PATH"])),
        },
        mark=NODE,
        block_seconds=400,
    )
    there, _, back = PAGE.text.partition("## Remove it")
    found = walk.faults(attrs.evolve(PAGE, text=there))
    assert found == [], "\n".join(found)
    assert "Directory listing" in pods.ask(URL)
    found = walk.faults(attrs.evolve(PAGE, text=back))
    assert found == [], "\n".join(found)
    assert names(plane) == before


def names(plane: ControlPlane) -> set[str]:
    """Return the names of all cluster-wide objects of the kinds in the manifests."""
    return set(plane.kubectl("get", f"{OURS},{GUARDS}", "-o", "name").split())
