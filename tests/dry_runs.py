"""Dry runs that show whether a server accepts our objects, and in which form it stores them."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

import attrs

from gpuruntime.bus.user_jwts import UserCredentials
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.storages import (
    GPU_STORAGES,
    GPUStorage,
    PrepareStatus,
    prepare_digest,
    prepare_name,
)
from gpuruntime.models.kinds.units import GPU_UNITS, GPUUnit, selector_of
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.pods import PODS
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.volumes import JOBS, VOLUME_CLAIMS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS
from gpuruntime.reconcilers.children.drift import Child, patch_towards
from gpuruntime.reconcilers.functions.worker_secret_plan import Validity, secret_body, secret_data
from gpuruntime.reconcilers.options import UnitOptions
from gpuruntime.reconcilers.storage.children import (
    Placing,
    accessor_deployment,
    accessor_policy,
    accessor_service,
    claim_of,
    prepare_job,
    prepare_policy,
)
from gpuruntime.reconcilers.unit.children import deployment_of, is_served, policy_of, service_of
from gpuruntime.reconcilers.unit.pod_template import Placement

# Posts a body to a path as a dry run and raises if the server rejects it.
Ask: TypeAlias = Callable[[str, JsonObject], dict[str, Any]]
Kept: TypeAlias = tuple[Resource[Any], Child]


def as_stored(ask: Ask, held: GPUUnit | GPUStorage) -> GPUUnit | GPUStorage:
    """Return the object as a reader receives it after the server has stored it."""
    model = type(held)
    resource: Resource[Any] = GPU_UNITS if isinstance(held, GPUUnit) else GPU_STORAGES
    body: JsonObject = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": held.metadata.name, "labels": dict(held.metadata.labels)},
        "spec": codec.to_json(held.spec),
    }
    answer = ask(resource.path(namespace=held.metadata.namespace), body)
    return codec.decode(codec.encode(answer), model)


def children_of_unit(unit: GPUUnit, options: UnitOptions, placement: Placement) -> Iterator[Kept]:
    selector = selector_of(unit)
    yield DEPLOYMENTS, deployment_of(unit, options, placement, selector)
    yield NETWORK_POLICIES, policy_of(unit, options, selector)
    if is_served(unit, options):
        yield SERVICES, service_of(unit, options, selector)


def secret_of(unit: GPUUnit, options: UnitOptions) -> JsonObject:
    """Return a worker's Secret with every member that such a Secret can have."""
    files = {"credentialsFile": "words", "caFile": "authority"}
    minted = UserCredentials(text="words", expires_at=datetime(2025, 1, 1, tzinfo=UTC))
    data = secret_data(unit, options.sidecar, files)
    return secret_body(unit, data, minted, Validity(purpose="echo", lifetime_seconds=1.0))


def children_of_storage(
    storage: GPUStorage, options: UnitOptions, placing: Placing
) -> Iterator[Kept]:
    yield DEPLOYMENTS, accessor_deployment(storage, options, placing)
    yield NETWORK_POLICIES, accessor_policy(storage, options)
    yield SERVICES, accessor_service(storage, options)
    if storage.spec.prepare is not None:
        yield NETWORK_POLICIES, prepare_policy(storage, storage.spec.prepare, options)


def written_once(
    storage: GPUStorage, options: UnitOptions, placing: Placing
) -> Iterator[tuple[Resource[Any], JsonObject]]:
    """Yield the children that are created once and never compared afterwards."""
    yield VOLUME_CLAIMS, claim_of(storage)
    prepare = storage.spec.prepare
    if prepare is not None:
        yield JOBS, prepare_job(_about_to_run(storage), prepare, options, placing.node)


def _about_to_run(storage: GPUStorage) -> GPUStorage:
    """Return the storage as it is recorded before its Job is created."""
    job = prepare_name(storage.metadata.name, prepare_digest(storage))
    status = attrs.evolve(storage.status, prepare=PrepareStatus(jobName=job))
    return attrs.evolve(storage, status=status)


def second_writes(ask: Ask, namespace: str, children: Iterator[Kept]) -> list[JsonObject]:
    """Return the patches that a second reconcile would send; there are none if nothing changed."""
    patches = [
        patch_towards(child, ask(resource.path(namespace=namespace), body))
        for resource, child in children
        for body in [child.annotated()]
    ]
    return [patch for patch in patches if patch]


def pod_from(body: Any) -> JsonObject:
    """Return the Pod that the controller of a Deployment or a Job creates from the template."""
    template = body["spec"]["template"]
    metadata = {"generateName": f"{body['metadata']['name']}-", **template["metadata"]}
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": metadata,
        "spec": template["spec"],
    }
