"""Desired children of a unit: its Deployment, its Service and its NetworkPolicy."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import attrs

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.templates import Port, PortProtocol
from gpuruntime.models.kinds.units import (
    GPU_UNITS,
    AccessStatus,
    GPUUnit,
    GPUUnitSpec,
    child_key,
)
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.reconcilers.children.drift import Child, inputs_hash
from gpuruntime.reconcilers.children.network_policies import unit_rules
from gpuruntime.reconcilers.options import NetworkOptions, UnitOptions
from gpuruntime.reconcilers.unit.pod_template import (
    Placement,
    labels_of,
    pod_template,
    primary_port,
)
from gpuruntime.tickets.addresses import slug_of

# A Pod must stay ready for this many seconds before a crash is forgiven. The first readiness
# counts at once.
MIN_READY_SECONDS: Final = 10
Selector: TypeAlias = Mapping[str, str]
_POD: Final = ("spec", "template", "spec")
POD_SURROUNDINGS: Final = ((*_POD, "affinity"), (*_POD, "priorityClassName"))


@attrs.frozen(slots=True)
class _PolicyInputs:
    spec: GPUUnitSpec
    network: NetworkOptions
    revision: int
    # Empty if the selector is the name alone. Older versions had the same hash then, and the same
    # for a Service, so that an upgrade writes nothing.
    uid: str = ""
    # The namespace of the gateway's Pods; empty without a gateway.
    gateway: str = ""


def deployment_of(
    unit: GPUUnit, options: UnitOptions, placement: Placement, selector: Selector
) -> Child:
    """Return the Deployment. Its inputs leave out the selector, which never changes."""
    spec: JsonObject = {
        "replicas": 0 if unit.spec.suspended else 1,
        "strategy": {"type": "Recreate"},
        "revisionHistoryLimit": 1,
        "minReadySeconds": MIN_READY_SECONDS,
        "selector": {"matchLabels": dict(selector)},
        "template": pod_template(unit, options, placement),
    }
    return _child(unit, options, DEPLOYMENTS, spec)


def is_served(unit: GPUUnit, options: UnitOptions) -> bool:
    """Return whether the unit has a Service: stock, templates and units without ports do not."""
    is_stock = unit.metadata.namespace == options.stock_namespace
    return bool(unit.spec.template.ports) and not (is_stock or unit.spec.is_function_template)


def service_of(unit: GPUUnit, options: UnitOptions, selector: Selector) -> Child:
    spec: JsonObject = {
        "type": "ClusterIP",
        "selector": dict(selector),
        "ports": [_service_port(port) for port in unit.spec.template.ports],
    }
    uid = selector.get(labels.UNIT_UID, "")
    inputs = f"{_spec_hash(unit.spec)}-{uid}" if uid else ""
    return _child(unit, options, SERVICES, spec, inputs=inputs)


def policy_of(unit: GPUUnit, options: UnitOptions, selector: Selector) -> Child:
    """Return the NetworkPolicy of the unit.

    Its inputs include the configuration and the revision of our rules, since changing it restarts
    no Pod.
    """
    gateway = options.system_namespace if options.public_address else ""
    spec = unit_rules(unit, selector, options.network, gateway_namespace=gateway)
    uid = selector.get(labels.UNIT_UID, "")
    asked = _PolicyInputs(unit.spec, options.network, options.rules_revision, uid, gateway)
    return _child(unit, options, NETWORK_POLICIES, spec, inputs=inputs_hash(asked))


def child_metadata(unit: GPUUnit) -> JsonObject:
    owner: JsonObject = {
        "apiVersion": GPU_UNITS.api_version,
        "kind": GPU_UNITS.kind,
        "name": unit.metadata.name,
        "uid": unit.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    key = child_key(unit)
    return {
        "name": key.name,
        "namespace": key.namespace,
        "labels": dict(labels_of(unit)),
        "ownerReferences": [owner],
    }


def access_url(unit: GPUUnit, options: UnitOptions) -> str:
    port = primary_port(unit)
    if port is None or not is_served(unit, options):
        return ""
    name = child_key(unit)
    host = f"{name.name}.{name.namespace}.svc.{options.cluster_domain}"
    return f"{unit.spec.access.scheme}://{host}:{port.port}"


def access_status(
    unit: GPUUnit, options: UnitOptions, *, is_gateway_ready: bool | None = None
) -> AccessStatus:
    """Return where a gateway serves the unit: nowhere without one, or if it runs no Pod itself.

    While a new leader does not know whether the gateway is ready, the status keeps what it says.
    """
    public = options.public_address
    is_stock = unit.metadata.namespace == options.stock_namespace
    if public is None or is_stock or unit.spec.is_function_template:
        return AccessStatus()
    slug = slug_of(unit.metadata.name, unit.metadata.uid)
    ports = (port for port in unit.spec.template.ports if port.protocol == PortProtocol.TCP)
    urls = {port.name: public.of_port(slug, port.port) for port in ports}
    ready = unit.status.access.gatewayReady if is_gateway_ready is None else is_gateway_ready
    return AccessStatus(slug=slug, urls=urls, gatewayReady=ready)


def _service_port(port: Port) -> JsonObject:
    return {
        "name": port.name,
        "port": port.port,
        "targetPort": port.port,
        "protocol": port.protocol,
    }


@lru_cache(maxsize=1_024)  # the children of a unit share it, at each pass of its reconciler
def _spec_hash(spec: GPUUnitSpec) -> str:
    return inputs_hash(spec)


def _child(
    unit: GPUUnit,
    options: UnitOptions,
    resource: Resource[Any],
    spec: JsonObject,
    *,
    inputs: str = "",
) -> Child:
    """Return the child; without inputs of its own, it is built from the unit's spec."""
    body: JsonObject = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": child_metadata(unit),
        "spec": spec,
    }
    return Child(
        inputs=inputs or _spec_hash(unit.spec),
        generation=unit.metadata.generation,
        revision=options.template_revision,
        body=body,
        surroundings=POD_SURROUNDINGS if resource is DEPLOYMENTS else (),
    )
