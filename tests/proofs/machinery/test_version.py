"""The version that a role reports at its start."""

from gpuruntime.kube.client import server_version
from tests.proofs.machinery.lines import Line


async def test_the_version_of_the_server_is_read(line: Line) -> None:
    assert (await server_version(line)).startswith("v1.")
