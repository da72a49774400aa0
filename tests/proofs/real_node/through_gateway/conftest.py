"""Roles for all tests of this folder, whose name sorts behind the other tests of the node."""

from collections.abc import Iterator

import pytest

from tests.proofs.real_cluster.controlplane import ControlPlane
from tests.proofs.real_node.node import Node
from tests.proofs.real_node.through_gateway.roles import Roles, started_roles


@pytest.fixture(scope="session")
def roles(
    plane: ControlPlane, real_node: Node, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Roles]:
    del real_node
    with started_roles(plane, tmp_path_factory.mktemp("roles")) as started:
        yield started
