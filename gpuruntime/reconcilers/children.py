"""The children of a unit as they should be: the Deployment and, where it serves, the Service."""

from typing import Final

from gpuruntime.models import labels
from gpuruntime.models.json import JsonObject
from gpuruntime.models.metadata import Key
from gpuruntime.models.names import cut_with_hash
from gpuruntime.models.templates import Port
from gpuruntime.models.units import GPU_UNITS, GPUUnit
from gpuruntime.reconcilers.drift import Child, inputs_hash
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.pod_template import Placement, labels_of, pod_template, primary_port

PREFIX: Final = "unit-"


def child_key(unit: GPUUnit) -> Key:
    """All children of a unit share one name, of a DNS label's length."""
    return Key(unit.metadata.namespace, cut_with_hash(f"{PREFIX}{unit.metadata.name}"))


def deployment_of(unit: GPUUnit, options: UnitOptions, placement: Placement) -> Child:
    selector: JsonObject = {labels.UNIT: unit.metadata.name}
    spec: JsonObject = {
        "replicas": 0 if unit.spec.suspended else 1,
        "strategy": {"type": "Recreate"},
        "revisionHistoryLimit": 1,
        "selector": {"matchLabels": selector},
        "template": pod_template(unit, options, placement),
    }
    return _child(unit, options, api_version="apps/v1", kind="Deployment", spec=spec)


def service_of(unit: GPUUnit, options: UnitOptions) -> Child | None:
    """Stock serves nobody, and a unit without ports has nothing to reach."""
    ports = unit.spec.template.ports
    if not ports or unit.metadata.namespace == options.stock_namespace:
        return None
    spec: JsonObject = {
        "type": "ClusterIP",
        "selector": {labels.UNIT: unit.metadata.name},
        "ports": [_service_port(port) for port in ports],
    }
    return _child(unit, options, api_version="v1", kind="Service", spec=spec)


def access_url(unit: GPUUnit, options: UnitOptions) -> str:
    port = primary_port(unit)
    if port is None or service_of(unit, options) is None:
        return ""
    name = child_key(unit)
    host = f"{name.name}.{name.namespace}.svc.{options.cluster_domain}"
    return f"{unit.spec.access.scheme}://{host}:{port.port}"


def _service_port(port: Port) -> JsonObject:
    return {
        "name": port.name,
        "port": port.port,
        "targetPort": port.port,
        "protocol": port.protocol,
    }


def _child(
    unit: GPUUnit, options: UnitOptions, *, api_version: str, kind: str, spec: JsonObject
) -> Child:
    owner: JsonObject = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": GPU_UNITS.kind,
        "name": unit.metadata.name,
        "uid": unit.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    key = child_key(unit)
    metadata: JsonObject = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": dict(labels_of(unit)),
        "ownerReferences": [owner],
    }
    body: JsonObject = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }
    return Child(
        inputs=inputs_hash(unit.spec), revision=options.template_revision, body=dict(body)
    )
