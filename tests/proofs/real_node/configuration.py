"""The configuration files and command lines of a node's programs."""

import json
from pathlib import Path
from typing import Any

import attrs

from tests.proofs.real_node.binaries import CNI_PLUGINS

NAME = "real-0"
POD_CIDR = "10.244.0.0/24"
CLUSTER_DOMAIN = "cluster.local"
PAUSE_IMAGE = "localhost/pause:1"
GPU_PRODUCT = "NVIDIA-TEST"


@attrs.frozen(kw_only=True)
class Layout:
    """The folders of a node, and the credentials of its cluster."""

    binaries: Path
    data: Path
    kubeconfig: Path
    address: str
    cgroup: str

    @property
    def socket(self) -> Path:
        return self.data / "containerd.sock"

    def file(self, name: str) -> Path:
        return self.data / "configuration" / name


def write_files(layout: Layout) -> None:
    """Write the files that have to exist before the first program starts."""
    (layout.data / "configuration/cni").mkdir(parents=True)
    layout.file("containerd.toml").write_text(_containerd(layout))
    layout.file("cni/10-pods.conflist").write_text(json.dumps(_network(layout)))
    layout.file("kubelet.json").write_text(json.dumps(_kubelet(layout)))
    layout.file("kube-proxy.json").write_text(json.dumps(_kube_proxy(layout)))
    layout.file("Corefile").write_text(_zones(layout))
    # The host resolves Services and no other name, so a pull from any registry fails at once.
    Path("/etc/resolv.conf").write_text(f"nameserver {layout.address}\n")


def commands(layout: Layout) -> dict[str, list[str]]:
    """Return the command line of each program, in the order of their start."""
    programs = layout.binaries
    return {
        "containerd": ["containerd", f"--config={layout.file('containerd.toml')}"],
        "coredns": [str(programs / "coredns"), "-conf", str(layout.file("Corefile"))],
        "kube-proxy": [
            str(programs / "kube-proxy"),
            f"--config={layout.file('kube-proxy.json')}",
        ],
        "kubelet": [
            str(programs / "kubelet"),
            f"--config={layout.file('kubelet.json')}",
            f"--kubeconfig={layout.kubeconfig}",
            f"--root-dir={layout.data / 'kubelet'}",
            f"--cert-dir={layout.data / 'kubelet/pki'}",
            f"--hostname-override={NAME}",
            f"--node-ip={layout.address}",
            f"--node-labels=nvidia.com/gpu.product={GPU_PRODUCT}",
        ],
    }


def _containerd(layout: Layout) -> str:
    """Return containerd's configuration, which does not lower OOM scores.

    Root may lack CAP_SYS_RESOURCE here, which lowering a score needs.
    """
    return f"""
version = 2
root = "{layout.data}/containerd"
state = "{layout.data}/containerd-state"
[grpc]
  address = "{layout.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{layout.data}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{layout.file("cni")}"
"""


def _network(layout: Layout) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "dataDir": str(layout.data / "addresses"),
        "ranges": [[{"subnet": POD_CIDR}]],
    }
    bridge = {
        "type": "bridge",
        "bridge": "pods0",
        "isDefaultGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": addresses,
    }
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def _kubelet(layout: Layout) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": layout.address,
        # Only the API server and the Pods of the tests are in this network.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": layout.cgroup,
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "containerRuntimeEndpoint": f"unix://{layout.socket}",
        "podLogsDir": str(layout.data / "pod-logs"),
        "volumePluginDir": str(layout.data / "volume-plugins"),
        "clusterDomain": CLUSTER_DOMAIN,
        "clusterDNS": [layout.address],
        # Imported images cannot be pulled again.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi"},
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "5s",
    }


def _kube_proxy(layout: Layout) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": NAME,
        "clientConnection": {"kubeconfig": str(layout.kubeconfig)},
        "clusterCIDR": POD_CIDR,
        "bindAddress": layout.address,
        "conntrack": {"maxPerCore": 0},  # a setting of the whole machine
        "oomScoreAdj": 0,
        "iptables": {"minSyncPeriod": "0s", "syncPeriod": "30s"},
    }


def _zones(layout: Layout) -> str:
    return f"""
{CLUSTER_DOMAIN}:53 in-addr.arpa:53 {{
  bind {layout.address}
  errors
  cache 2
  kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
    kubeconfig {layout.kubeconfig}
    pods verified
    ttl 2
  }}
}}
.:53 {{
  bind {layout.address}
  errors
  template ANY ANY . {{
    rcode NXDOMAIN
  }}
}}
"""
