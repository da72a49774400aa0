"""Options of a control plane that does not limit the product: many nodes and high concurrency."""

import json
from pathlib import Path

from tests.proofs.real_cluster.controlplane import Options

PODS_PER_NODE = 1_500
GPUS_PER_NODE = 2_000
CONCURRENCY = 50
# The controllers that units need. The others would only take processor time from these.
CONTROLLERS = (
    "deployment",
    "replicaset",
    "garbage-collector",
    "endpointslice",
    "namespace",
    "resourcequota",
    "serviceaccount",
    "root-ca-certificate-publisher",
)
SYNCS = ("deployment", "replicaset", "gc", "service-endpoint")


def large_options(folder: Path, *, pods: int) -> Options:
    """Return the options, and write the files that the programs read into the folder."""
    return Options(
        nodes=pods // PODS_PER_NODE + 1,
        gpus_per_node=GPUS_PER_NODE,
        apiserver_flags=(
            f"--audit-policy-file={_written(folder, 'audit-policy.json', _no_audit())}",
            "--max-requests-inflight=1600",
            "--max-mutating-requests-inflight=800",
            # without it the history of the writes fills the database
            "--etcd-compaction-interval=1m",
        ),
        controller_manager_flags=(
            f"--controllers={','.join(f'{each}-controller' for each in CONTROLLERS)}",
            *(f"--concurrent-{each}-syncs={CONCURRENCY}" for each in SYNCS),
        ),
        kwok_flags=(
            "--v=WARN",
            f"--config={_written(folder, 'kwok.json', _kwok())}",
            "--cidr=10.128.0.1/9",
        ),
    )


def _written(folder: Path, name: str, document: object) -> Path:
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def _no_audit() -> object:
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "None"}]}


def _kwok() -> object:
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "podPlayStageParallelism": CONCURRENCY,
            "nodePlayStageParallelism": CONCURRENCY,
            "nodeLeaseParallelism": CONCURRENCY,
        },
    }
