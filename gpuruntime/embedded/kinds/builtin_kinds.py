"""The built-in kinds, which every server serves from the start."""

from typing import Final

from gpuruntime.embedded.kinds import (
    cluster_rules,
    config_rules,
    device_rules,
    pod_defaults,
    pod_rules,
    service_rules,
    volume_rules,
    workload_rules,
)
from gpuruntime.embedded.kinds.builtin_rules import BuiltinRules, fill_nothing, judge_nothing
from gpuruntime.embedded.kinds.cluster_rules import fill_role_binding, judge_role_binding
from gpuruntime.embedded.objects.namespaces import NAMESPACES
from gpuruntime.embedded.objects.registry import Kind, Subresource, fields
from gpuruntime.embedded.schemas.names import path_segment_faults, service_name_faults

APPS: Final = "apps"
DEVICES: Final = "resource.k8s.io"
RBAC: Final = "rbac.authorization.k8s.io"

SCALE: Final = Subresource(
    name="scale",
    kind="Scale",
    group="autoscaling",
    version="v1",
    verbs=("get", "patch", "update"),
)
PODS: Final = Kind(
    kind="Pod",
    rules=BuiltinRules("Pod", fill=pod_defaults.fill_pod, judge=pod_rules.judge_pod),
    short_names=("po",),
    categories=("all",),
    has_status=True,
    metadata_apart_from_status=("ownerReferences",),
    has_generation=True,
    is_graceful=True,
    returns_deleted=True,
    subresources=(
        Subresource(name="binding", kind="Binding", verbs=("create",)),
        Subresource(
            name="eviction", kind="Eviction", group="policy", version="v1", verbs=("create",)
        ),
        Subresource(name="exec", kind="PodExecOptions", verbs=("create", "get")),
        Subresource(name="log", kind="Pod", verbs=("get",)),
        Subresource(name="portforward", kind="PodPortForwardOptions", verbs=("create", "get")),
    ),
    field_paths=fields(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
)
NODES: Final = Kind(
    kind="Node",
    rules=BuiltinRules("Node"),
    short_names=("no",),
    is_namespaced=False,
    has_status=True,
    keeps_first_status=True,
    field_paths=fields("spec.unschedulable"),
)
SERVICES: Final = Kind(
    kind="Service",
    rules=BuiltinRules(
        "Service", fill=service_rules.fill_service, judge=service_rules.judge_service
    ),
    short_names=("svc",),
    categories=("all",),
    has_status=True,
    returns_deleted=True,
    name_faults=service_name_faults,
    field_paths=fields("spec.clusterIP", "spec.type"),
)
EVENTS: Final = Kind(
    kind="Event",
    rules=BuiltinRules("Event", judge=cluster_rules.judge_event),
    short_names=("ev",),
    creates_on_update=True,
    field_paths={
        **fields(
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        ),
        "source": "source.component",
    },
)
CLAIMS: Final = Kind(
    kind="PersistentVolumeClaim",
    rules=BuiltinRules(
        "PersistentVolumeClaim", fill=volume_rules.fill_claim, judge=volume_rules.judge_claim
    ),
    short_names=("pvc",),
    has_status=True,
    returns_deleted=True,
)
CORE: Final = (
    NAMESPACES,
    PODS,
    NODES,
    SERVICES,
    EVENTS,
    Kind(
        kind="ConfigMap",
        rules=BuiltinRules("ConfigMap", judge=config_rules.judge_config_map),
        short_names=("cm",),
    ),
    Kind(
        kind="Secret",
        rules=BuiltinRules(
            "Secret", fill=config_rules.fill_secret, judge=config_rules.judge_secret
        ),
        field_paths=fields("type"),
    ),
    CLAIMS,
    Kind(
        kind="PersistentVolume",
        rules=BuiltinRules(
            "PersistentVolume", fill=volume_rules.fill_volume, judge=volume_rules.judge_volume
        ),
        short_names=("pv",),
        is_namespaced=False,
        has_status=True,
        returns_deleted=True,
    ),
    Kind(
        kind="ServiceAccount",
        rules=BuiltinRules("ServiceAccount"),
        short_names=("sa",),
        returns_deleted=True,
    ),
    Kind(
        kind="ResourceQuota",
        rules=BuiltinRules("ResourceQuota"),
        short_names=("quota",),
        has_status=True,
        returns_deleted=True,
    ),
    Kind(
        kind="LimitRange",
        rules=BuiltinRules("LimitRange"),
        short_names=("limits",),
        creates_on_update=True,
    ),
    Kind(
        kind="Endpoints",
        plural="endpoints",
        rules=BuiltinRules("Endpoints", fill=cluster_rules.fill_endpoints),
        short_names=("ep",),
        creates_on_update=True,
    ),
)

DEPLOYMENTS: Final = Kind(
    group=APPS,
    kind="Deployment",
    rules=BuiltinRules(
        "Deployment", fill=workload_rules.fill_deployment, judge=workload_rules.judge_deployment
    ),
    short_names=("deploy",),
    categories=("all",),
    has_status=True,
    subresources=(SCALE,),
    has_generation=True,
    annotations_raise_generation=True,
    metadata_apart_from_status=("labels",),
)
REPLICA_SETS: Final = Kind(
    group=APPS,
    kind="ReplicaSet",
    rules=BuiltinRules(
        "ReplicaSet", fill=workload_rules.fill_replica_set, judge=workload_rules.judge_replica_set
    ),
    short_names=("rs",),
    categories=("all",),
    has_status=True,
    subresources=(SCALE,),
    has_generation=True,
    field_paths=fields("status.replicas"),
)
JOBS: Final = Kind(
    group="batch",
    kind="Job",
    rules=BuiltinRules("Job", fill=workload_rules.fill_job, judge=workload_rules.judge_job),
    categories=("all",),
    has_status=True,
    has_generation=True,
    orphans_by_default=True,
    field_paths=fields("status.successful"),
)
PRIORITY_CLASSES: Final = Kind(
    group="scheduling.k8s.io",
    kind="PriorityClass",
    plural="priorityclasses",
    rules=BuiltinRules(
        "PriorityClass",
        fill=cluster_rules.fill_priority_class,
        judge=cluster_rules.judge_priority_class,
    ),
    short_names=("pc",),
    is_namespaced=False,
    has_generation=True,
)
STORAGE_CLASSES: Final = Kind(
    group="storage.k8s.io",
    kind="StorageClass",
    plural="storageclasses",
    rules=BuiltinRules(
        "StorageClass",
        fill=volume_rules.fill_storage_class,
        judge=volume_rules.judge_storage_class,
    ),
    short_names=("sc",),
    is_namespaced=False,
    returns_deleted=True,
)
DEVICE_KINDS: Final = (
    Kind(
        group=DEVICES,
        kind="DeviceClass",
        plural="deviceclasses",
        rules=BuiltinRules("DeviceClass", judge=device_rules.judge_class),
        is_namespaced=False,
        has_generation=True,
        returns_deleted=True,
    ),
    Kind(
        group=DEVICES,
        kind="ResourceClaim",
        rules=BuiltinRules(
            "DeviceResourceClaim", fill=device_rules.fill_claim, judge=device_rules.judge_claim
        ),
        has_status=True,
        metadata_apart_from_status=("annotations", "finalizers", "labels", "ownerReferences"),
        returns_deleted=True,
    ),
    Kind(
        group=DEVICES,
        kind="ResourceClaimTemplate",
        rules=BuiltinRules(
            "ResourceClaimTemplate",
            fill=device_rules.fill_claim_template,
            judge=device_rules.judge_claim_template,
        ),
        returns_deleted=True,
    ),
    Kind(
        group=DEVICES,
        kind="ResourceSlice",
        rules=BuiltinRules(
            "ResourceSlice", fill=device_rules.fill_slice, judge=device_rules.judge_slice
        ),
        is_namespaced=False,
        has_generation=True,
        returns_deleted=True,
        field_paths=fields("spec.driver", "spec.nodeName"),
    ),
)
GROUPED: Final = (
    DEPLOYMENTS,
    REPLICA_SETS,
    JOBS,
    Kind(
        group="networking.k8s.io",
        kind="NetworkPolicy",
        plural="networkpolicies",
        rules=BuiltinRules(
            "NetworkPolicy",
            fill=cluster_rules.fill_network_policy,
            judge=cluster_rules.judge_network_policy,
        ),
        short_names=("netpol",),
        has_generation=True,
    ),
    Kind(
        group="coordination.k8s.io",
        kind="Lease",
        rules=BuiltinRules("Lease", judge=cluster_rules.judge_lease),
        allows_unconditional_update=False,
        creates_on_update=True,
    ),
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
    Kind(
        group="policy",
        kind="PodDisruptionBudget",
        rules=BuiltinRules("PodDisruptionBudget"),
        short_names=("pdb",),
        has_status=True,
        has_generation=True,
        allows_unconditional_update=False,
    ),
    *(
        Kind(
            group=RBAC,
            kind=kind,
            is_namespaced=not kind.startswith("Cluster"),
            creates_on_update=True,
            name_faults=path_segment_faults,
            rules=BuiltinRules(kind, fill=fill, judge=judge),
        )
        for kind, fill, judge in (
            ("ClusterRole", fill_nothing, judge_nothing),
            ("ClusterRoleBinding", fill_role_binding, judge_role_binding),
            ("Role", fill_nothing, judge_nothing),
            ("RoleBinding", fill_role_binding, judge_role_binding),
        )
    ),
)

BUILTIN_KINDS: Final = CORE + GROUPED + DEVICE_KINDS
