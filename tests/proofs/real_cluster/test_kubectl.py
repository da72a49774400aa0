"""A session of an unmodified kubectl on the real control plane and on the embedded cluster.

Both outputs have to be equal, except for ages, addresses, uids, versions, timestamps and the
random ends of names, which differ between any two clusters.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.proofs.real_cluster import binaries
from tests.proofs.real_cluster.controlplane import control_plane

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[3]
DEFINITIONS = ROOT / "manifests" / "crds" / "gpuruntime.yaml"

UNIT = """
apiVersion: runtime.lokiwager.io/v1alpha1
kind: GPUUnit
metadata: {name: demo, namespace: session}
spec: {specName: g1.1, image: "python:3.12", memory: 16Gi, gpu: 1}
"""
POOL = """
apiVersion: runtime.lokiwager.io/v1alpha1
kind: StockPool
metadata: {name: warm, namespace: session}
spec: {specName: g1.1, memory: 16Gi, gpu: 1, replicas: 3}
"""
SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: session}
data: {colour: green}
"""
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: session}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:1.29"}]}
"""
GREEDY = WEB.replace("name: web, namespace", "name: greedy, namespace").replace(
    'image: "nginx:1.29"', 'image: "nginx:1.29", resources: {limits: {nvidia.com/gpu: 5000}}'
)
# The arguments, and the standard input.
SESSION: tuple[tuple[str, str], ...] = (
    ("apply -f -", "apiVersion: v1\nkind: Namespace\nmetadata: {name: session}\n"),
    ("get namespace session", ""),
    (f"apply -f {DEFINITIONS}", ""),
    ("wait --for=condition=Established crd/gpuunits.runtime.lokiwager.io --timeout=30s", ""),
    ("wait --for=condition=Established crd/stockpools.runtime.lokiwager.io --timeout=30s", ""),
    ("api-resources --api-group=runtime.lokiwager.io", ""),
    ("get gpuunits -n session", ""),
    ("apply -f -", UNIT),
    ("apply -f -", UNIT),
    ("apply -f -", UNIT.replace("3.12", "3.13")),
    ("apply -f -", UNIT.replace("16Gi", "8Gi")),
    ("apply -f -", UNIT.replace("g1.1", "G1")),
    ("apply -f -", UNIT.replace("gpu: 1", "gpu: 1, colour: red")),
    ("get gpuunits -n session", ""),
    ("get gu -n session -o wide", ""),
    ("get gpuunit demo -n session -o name", ""),
    ("get gpuunit demo -n session -o jsonpath={.spec}", ""),
    ("get gpuunit demo -n session -o yaml", ""),
    ("label gpuunit demo -n session team=blue", ""),
    ("get gpuunits -n session -l team=blue -o name", ""),
    ("get gpuunits -n session -l team=red", ""),
    ("annotate gpuunit demo -n session note=kept", ""),
    ('patch gpuunit demo -n session --type=merge -p {"spec":{"suspended":true}}', ""),
    ("get gpuunit demo -n session -o jsonpath={.spec.suspended}", ""),
    ("apply -f -", POOL),
    ("get sp -n session -o wide", ""),
    ("get gpuruntime -n session", ""),
    ("apply -f -", SETTINGS),
    ("apply -f -", SETTINGS.replace("green", "blue")),
    ("get configmap settings -n session -o yaml", ""),
    ("describe configmap settings -n session", ""),
    ("apply -f -", WEB),
    ("wait --for=condition=Available deployment/web -n session --timeout=60s", ""),
    ("rollout status deployment/web -n session --timeout=60s", ""),
    ("get deployment web -n session", ""),
    ("get replicasets -n session", ""),
    ("get pods -n session -l app=web", ""),
    ("scale deployment web -n session --replicas=1", ""),
    ("delete deployment web -n session --cascade=foreground", ""),
    ("get pods -n session -l app=web", ""),
    ("apply -f -", GREEDY),
    ("wait --for=condition=PodScheduled=false pod -l app=web -n session --timeout=30s", ""),
    ("get pods -n session -l app=web", ""),
    ("delete gpuunit demo -n session", ""),
    ("get gpuunit demo -n session", ""),
    ("get nothings", ""),
    ("delete namespace session", ""),
    ("get namespace session", ""),
)
MASKS = (
    # These print the whole object with its versions, and with managed fields, which only one
    # server keeps.
    (r'(patch: Invalid value: ").*(": strict decoding)', r"\1OBJECT\2"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "MOMENT"),
    (r'resourceVersion: "\d+"', "resourceVersion: VERSION"),
    (r"\b(web|greedy)-[a-z0-9]{6,10}(-[a-z0-9]{5})?\b", r"\1-RANDOM"),
    (r"\b(\d+d)?(\d+h)?(\d+m)?\d+s\b", "AGE"),
    (r"\bhttps?://127\.0\.0\.1:\d+", "SERVER"),
    (r"[ \t]+", " "),
)


@contextmanager
def embedded(folder: Path) -> Iterator[Path]:
    """Yield the kubeconfig of an embedded cluster with the same nodes as the real one."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.proofs.real_cluster.embedded", "gpu", "1024"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        path = folder / "kubeconfig"
        named = {"name": "embedded"}
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "embedded",
                    "clusters": [{**named, "cluster": {"server": url}}],
                    "users": [{**named, "user": {}}],
                    "contexts": [
                        {**named, "context": {"cluster": "embedded", "user": "embedded"}}
                    ],
                }
            )
        )
        yield path
    finally:
        process.kill()
        process.communicate()


def masked(text: str) -> list[str]:
    for pattern, mask in MASKS:
        text = re.sub(pattern, mask, text)
    return [line.strip() for line in text.splitlines()]


def run(kubectl: Path, kubeconfig: Path, arguments: Sequence[str], stdin: str) -> list[str]:
    ended = subprocess.run(
        [kubectl, "--kubeconfig", kubeconfig, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(kubeconfig.parent)},
    )
    return [f"exit {ended.returncode}", *masked(ended.stdout), *masked(ended.stderr)]


def session(kubectl: Path, kubeconfig: Path) -> dict[str, list[str]]:
    return {
        f"{number}: {arguments} {stdin}": run(kubectl, kubeconfig, arguments.split(), stdin)
        for number, (arguments, stdin) in enumerate(SESSION)
    }


def test_kubectl_prints_the_same_on_both_clusters(tmp_path: Path) -> None:
    programs = binaries.find()
    kubectl = programs / "kubectl"
    with control_plane(programs, tmp_path) as plane:
        expected = session(kubectl, plane.kubeconfig)
    with embedded(tmp_path) as kubeconfig:
        seen = session(kubectl, kubeconfig)
    assert len(SESSION) >= 30
    assert seen == expected
