"""Desired children of a storage: its claim, the Job that fills it, and its accessor."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.file_servers import ACCESSOR_PORT, accessor_arguments
from gpuruntime.models.kinds.reasons import StorageReason
from gpuruntime.models.kinds.storages import (
    GPU_STORAGES,
    GPUStorage,
    Prepare,
    accessor_name,
    prepare_policy_name,
)
from gpuruntime.models.kubernetes.metadata import KubernetesObject
from gpuruntime.models.kubernetes.network import NETWORK_POLICIES, SERVICES
from gpuruntime.models.kubernetes.resources import Resource
from gpuruntime.models.kubernetes.volumes import JOBS, VOLUME_CLAIMS
from gpuruntime.models.kubernetes.workloads import DEPLOYMENTS, Deployment
from gpuruntime.reconcilers.children.drift import Child, inputs_hash
from gpuruntime.reconcilers.children.network_policies import accessor_rules, prepare_rules
from gpuruntime.reconcilers.children.pod_security import (
    container_security,
    copying_security,
    pod_security,
    scratch_limits,
    storage_security,
)
from gpuruntime.reconcilers.children.refusals import ownership_message
from gpuruntime.reconcilers.options import NetworkOptions, UnitOptions
from gpuruntime.reconcilers.storage.verdict import StorageVerdict

# Mount paths of the volume in a prepare, and of the source in a copy.
MOUNT_PATH: Final = "/storage"
SOURCE_PATH: Final = "/source"
# Entry by entry, so that the file system's own folder lost+found stays in place.
COPY: Final = (
    f"cd {SOURCE_PATH} && for each in .[!.]* ..?* *; do "
    '[ "$each" = lost+found ] && continue; '
    '[ -e "$each" ] || [ -L "$each" ] || continue; '
    f'cp {{flags}} -- "./$each" {MOUNT_PATH}/ || exit 1; done'
)
_VOLUME: Final = "storage"
_SOURCE: Final = "source"


@attrs.frozen(kw_only=True, slots=True)
class Placing:
    """Node of an accessor: a volume is on one node at a time, so it follows the holder's Pod."""

    node: str = ""
    is_off: bool = False

    @property
    def replicas(self) -> int:
        return 0 if self.is_off else 1


def placing_of(accessor: Deployment) -> Placing:
    """Return the placing that the Deployment has now."""
    spec = codec.decode_object(bytes(accessor.spec))
    is_off = spec.get("replicas") == 0
    match spec.get("template"):
        case {"spec": {"affinity": {"nodeAffinity": dict(affinity)}}}:
            return Placing(node=_node_in(affinity), is_off=is_off)
        case _:
            return Placing(is_off=is_off)


def foreign_child(
    resource: Resource[Any],
    child: KubernetesObject,
    storage: GPUStorage,
    *,
    refused: StorageReason,
    waits: StorageReason,
) -> StorageVerdict | None:
    """Return a verdict if another object owns the child, or None if the storage does.

    A child of an earlier storage of the same name is about to be collected, so that verdict says
    to wait.
    """
    owner = child.metadata.controller_owner
    if owner is not None and owner.uid == storage.metadata.uid:
        return None
    what = f"{resource.kind} {child.metadata.key}"
    if owner is not None and (owner.kind, owner.name) == (
        GPU_STORAGES.kind,
        storage.metadata.name,
    ):
        return StorageVerdict(reason=waits, message=outlives(resource, child))
    return StorageVerdict(reason=refused, message=ownership_message(what, owner))


def outlives(resource: Resource[Any], child: KubernetesObject) -> str:
    what = f"{resource.kind} {child.metadata.key}"
    return f"waits until {what} of the storage that had this name before is gone"


def labels_of_storage(storage: GPUStorage) -> dict[str, str]:
    given = storage.metadata.labels
    tenant = {labels.TENANT: given[labels.TENANT]} if labels.TENANT in given else {}
    return {
        labels.APP_NAME: labels.STORAGE_APP,
        labels.MANAGED_BY: labels.MANAGER,
        labels.STORAGE: storage.metadata.name,
        **tenant,
    }


def claim_of(storage: GPUStorage) -> JsonObject:
    """Return the claim for its creation, owned by the storage.

    If the create lands after the storage is gone, the owner reference has the claim collected. The
    reference is removed before the claim is mounted, because an owned claim may be deleted before
    its owner is gone.
    """
    spec: JsonObject = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage.spec.size}},
    }
    if storage.spec.storageClassName:
        spec["storageClassName"] = storage.spec.storageClassName
    return _body(storage, VOLUME_CLAIMS, storage.metadata.name, spec, **claim_marks(storage))


def claim_marks(storage: GPUStorage) -> dict[str, str]:
    return {labels.OWNER_UID: storage.metadata.uid}


def prepare_job(
    storage: GPUStorage, prepare: Prepare, options: UnitOptions, node: str
) -> JsonObject:
    """Return the Job of a recorded run. It is never retried: a user must look at a failed one.

    The Job is created suspended. If its create lands late, after the run has ended and its Job is
    gone, it must not fill the volume again.
    """
    volumes: list[Any] = [_claim_volume(_VOLUME, storage.metadata.name)]
    mounts: list[Any] = [{"name": _VOLUME, "mountPath": MOUNT_PATH}]
    if prepare.fromStorageName:
        volumes.append(_claim_volume(_SOURCE, prepare.fromStorageName, read_only=True))
        mounts.append({"name": _SOURCE, "mountPath": SOURCE_PATH, "readOnly": True})
    container: JsonObject = {
        "name": "prepare",
        "volumeMounts": mounts,
        **_held_in(options),
        **_work(prepare, options),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    pod = _pod(options, container, volumes, node)
    template: JsonObject = {
        "metadata": {"labels": {**labels_of_storage(storage), **prepare_selector(storage)}},
        "spec": {**pod, "restartPolicy": "Never"},
    }
    name = storage.status.prepare.jobName
    return _body(storage, JOBS, name, {"suspend": True, "backoffLimit": 0, "template": template})


def prepare_policy(storage: GPUStorage, prepare: Prepare, options: UnitOptions) -> Child:
    """Return the one NetworkPolicy of all runs; it follows the current configuration."""
    rules = prepare_rules(prepare_selector(storage), prepare, options.network)
    body = _body(storage, NETWORK_POLICIES, prepare_policy_name(storage.metadata.name), rules)
    asked = _PrepareRules(prepare, options.network, options.rules_revision)
    return _child(storage, options, body, asked)


def accessor_deployment(storage: GPUStorage, options: UnitOptions, placing: Placing) -> Child:
    name = accessor_name(storage.metadata.name)
    # The server drops false members, so a false one would count as drift.
    access: JsonObject = {} if storage.spec.accessor.writable else {"readOnly": True}
    mount: JsonObject = {"name": _VOLUME, "mountPath": MOUNT_PATH, **access}
    container: JsonObject = {
        "name": "accessor",
        "image": options.helpers.accessor_image,
        "args": [*_serving(storage)],
        "ports": [{"name": "http", "containerPort": ACCESSOR_PORT, "protocol": "TCP"}],
        "readinessProbe": {
            "tcpSocket": {"port": ACCESSOR_PORT},
            "periodSeconds": 2,
            "failureThreshold": 3,
        },
        "volumeMounts": [mount],
        **_held_in(options, is_read_only=True),
    }
    volumes: list[Any] = [_claim_volume(_VOLUME, storage.metadata.name)]
    pod = _pod(options, container, volumes, placing.node, always_restricted=True)
    selector = accessor_selector(storage)
    spec: JsonObject = {
        "replicas": placing.replicas,
        "strategy": {"type": "Recreate"},
        "revisionHistoryLimit": 1,
        "selector": {"matchLabels": dict(selector)},
        "template": {
            "metadata": {"labels": {**labels_of_storage(storage), **selector}},
            "spec": pod,
        },
    }
    image = options.helpers.accessor_image
    asked = _Serving(spec=storage.spec.accessor, placing=placing, image=image)
    return _child(storage, options, _body(storage, DEPLOYMENTS, name, spec), asked)


def accessor_service(storage: GPUStorage, options: UnitOptions) -> Child:
    name = accessor_name(storage.metadata.name)
    port: JsonObject = {
        "name": "http",
        "port": ACCESSOR_PORT,
        "targetPort": ACCESSOR_PORT,
        "protocol": "TCP",
    }
    spec: JsonObject = {
        "type": "ClusterIP",
        "selector": dict(accessor_selector(storage)),
        "ports": [port],
    }
    return _child(storage, options, _body(storage, SERVICES, name, spec), storage.spec.accessor)


def accessor_policy(storage: GPUStorage, options: UnitOptions) -> Child:
    rules = accessor_rules(accessor_selector(storage), ACCESSOR_PORT, options.system_namespace)
    body = _body(storage, NETWORK_POLICIES, accessor_name(storage.metadata.name), rules)
    asked = _AccessorRules(options.system_namespace, options.rules_revision)
    return _child(storage, options, body, asked)


def accessor_selector(storage: GPUStorage) -> dict[str, str]:
    return {labels.ACCESSOR: accessor_name(storage.metadata.name)}


def prepare_selector(storage: GPUStorage) -> dict[str, str]:
    return {labels.PREPARE: storage.metadata.name}


def accessor_url(storage: GPUStorage, options: UnitOptions) -> str:
    name = accessor_name(storage.metadata.name)
    host = f"{name}.{storage.metadata.namespace}.svc.{options.cluster_domain}"
    return f"http://{host}:{ACCESSOR_PORT}/"


@attrs.frozen(kw_only=True, slots=True)
class _Serving:
    """Inputs of an accessor. Our own revision is not among them, so an upgrade restarts none."""

    spec: object
    placing: Placing
    image: str


@attrs.frozen(slots=True)
class _PrepareRules:
    prepare: Prepare
    network: NetworkOptions
    revision: int


@attrs.frozen(slots=True)
class _AccessorRules:
    system_namespace: str
    revision: int


def _serving(storage: GPUStorage) -> tuple[str, ...]:
    is_writable = storage.spec.accessor.writable
    return accessor_arguments(storage.metadata.name, folder=MOUNT_PATH, is_writable=is_writable)


def _work(prepare: Prepare, options: UnitOptions) -> JsonObject:
    if prepare.fromStorageName:
        # A copy keeps file owners if it runs as root, since only root may give files away.
        script = COPY.format(flags="-Rf" if options.is_restricted else "-af")
        return {
            "image": options.helpers.copy_image,
            "command": ["sh", "-c", script],
            "securityContext": copying_security(is_restricted=options.is_restricted),
        }
    words = {"command": list(prepare.command), "args": list(prepare.args)}
    return {"image": prepare.fromImage, **{name: word for name, word in words.items() if word}}


def _held_in(options: UnitOptions, *, is_read_only: bool = False) -> JsonObject:
    resources: JsonObject = {
        "cpu": options.helpers.cpu,
        "memory": options.helpers.memory,
        **scratch_limits(),
    }
    return {
        "resources": {"requests": resources, "limits": resources},
        "securityContext": container_security(is_read_only=is_read_only),
    }


def _pod(
    options: UnitOptions,
    container: JsonObject,
    volumes: list[Any],
    node: str,
    *,
    always_restricted: bool = False,
) -> JsonObject:
    defaults = options.pod_defaults
    optional: JsonObject = {
        "imagePullSecrets": [{"name": name} for name in defaults.image_pull_secrets],
        "tolerations": list(defaults.tolerations),
        "nodeSelector": dict(defaults.node_selector),
        "runtimeClassName": defaults.runtime_class,
        "affinity": _on_node(node),
    }
    is_restricted = options.is_restricted or always_restricted
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": pod_security(is_restricted=is_restricted) | storage_security(),
        "containers": [container],
        "volumes": volumes,
        **{name: value for name, value in optional.items() if value},
    }


def _on_node(node: str) -> JsonObject:
    if not node:
        return {}
    field: JsonObject = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms: JsonObject = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _node_in(affinity: Mapping[str, Any]) -> str:
    match affinity.get("requiredDuringSchedulingIgnoredDuringExecution"):
        case {"nodeSelectorTerms": [{"matchFields": [{"values": [str(node)]}]}]}:
            return node
        case _:
            return ""


def _claim_volume(name: str, claim: str, *, read_only: bool = False) -> JsonObject:
    source: JsonObject = {"claimName": claim}
    if read_only:
        source["readOnly"] = True
    return {"name": name, "persistentVolumeClaim": source}


def _child(storage: GPUStorage, options: UnitOptions, body: JsonObject, asked: object) -> Child:
    """Return the child; `asked` holds all inputs of the body except the storage's name."""
    return Child(
        inputs=inputs_hash(asked),
        generation=storage.metadata.generation,
        revision=options.template_revision,
        body=body,
    )


def _body(
    storage: GPUStorage, resource: Resource[Any], name: str, spec: JsonObject, **annotations: str
) -> JsonObject:
    owner: JsonObject = {
        "apiVersion": GPU_STORAGES.api_version,
        "kind": GPU_STORAGES.kind,
        "name": storage.metadata.name,
        "uid": storage.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": name,
            "namespace": storage.metadata.namespace,
            "labels": dict(labels_of_storage(storage)),
            "ownerReferences": [owner],
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "spec": spec,
    }
