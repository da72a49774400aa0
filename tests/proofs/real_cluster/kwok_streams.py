"""A control plane whose kwok runs commands on this machine, and forwards to one of its ports."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import attrs
import pytest

from gpuruntime.models.encoding.json import JsonObject
from tests.proofs.real_cluster.controlplane import ControlPlane, Options
from tests.proofs.real_cluster.fixtures import started
from tests.proofs.real_cluster.processes import free_port
from tests.rooms.kube.servers import Authority

HOST: Final = "127.0.0.1"


@attrs.frozen
class StreamingCluster:
    """A control plane whose kwok forwards every port to `port` of this machine."""

    plane: ControlPlane
    port: int


def started_with_streams(
    tmp_path_factory: pytest.TempPathFactory, config: pytest.Config
) -> Iterator[StreamingCluster]:
    folder = tmp_path_factory.mktemp("kwok")
    certificate = Authority(folder).issue("kubelet", host="localhost")
    node_port, port = free_port(), free_port()
    configuration = folder / "kwok.yaml"
    configuration.write_text(
        "\n---\n".join(map(json.dumps, (_cluster_exec(), _cluster_port_forward(port))))
    )
    flags = (
        f"--config={configuration}",
        f"--node-ip={HOST}",
        f"--node-port={node_port}",
        f"--tls-cert-file={certificate.file}",
        f"--tls-private-key-file={certificate.key}",
    )
    options = Options(nodes=1, kwok_flags=flags)
    for plane in started(tmp_path_factory, config, options):
        address = {"addresses": [{"type": "InternalIP", "address": HOST}]}
        endpoint = {"daemonEndpoints": {"kubeletEndpoint": {"Port": node_port}}}
        patch = json.dumps({"status": address | endpoint})
        plane.kubectl("patch", "node", "gpu-0", "--subresource=status", "-p", patch)
        yield StreamingCluster(plane, port)


async def is_listening(port: int) -> bool:
    with suppress(OSError):
        _, writer = await asyncio.open_connection(HOST, port)
        writer.close()
        return True
    return False


def _cluster_exec() -> JsonObject:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterExec",
        "metadata": {"name": "here"},
        "spec": {"execs": [{"local": {}}]},
    }


def _cluster_port_forward(port: int) -> JsonObject:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterPortForward",
        "metadata": {"name": "here"},
        "spec": {"forwards": [{"target": {"address": HOST, "port": port}}]},
    }
