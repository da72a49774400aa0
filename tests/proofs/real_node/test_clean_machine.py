"""A newcomer follows the page on a cluster that has nothing of ours, to the end and back.

It comes before everything else that runs the product on the node: what it has brought is gone
again when it ends.
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
    """A checkout, and one's own overlay beside it, as the page shows it."""
    folder = place / "newcomer"
    for name in ("manifests", "examples"):
        shutil.copytree(ROOT / name, folder / "gpuruntime" / name)
    (overlay,) = (each.text for each in PAGE.blocks if "kustomization.yaml" in each.text)
    (folder / "kustomization.yaml").write_text(here(overlay))
    (folder / "manager.yaml").write_text(yaml.safe_dump(MANAGER))
    yield folder
    shutil.rmtree(folder)


def here(text: str) -> str:
    """The image is on the node already."""
    return text.replace("registry.example.com/gpuruntime", "gpuruntime")


def test_the_page_leads_to_a_unit_that_answers_and_back(
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
    """Of everything that the manifests bring to the cluster as a whole."""
    return set(plane.kubectl("get", f"{OURS},{GUARDS}", "-o", "name").split())
