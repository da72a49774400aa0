"""The kinds that every server has from its start."""

from typing import Final

from gpuruntime.local.names import path_segment_faults, service_name_faults
from gpuruntime.local.namespaces import NAMESPACES
from gpuruntime.local.registry import Kind, fields

APPS: Final = "apps"
RBAC: Final = "rbac.authorization.k8s.io"

PODS: Final = Kind(
    kind="Pod",
    plural="pods",
    singular="pod",
    short_names=("po",),
    categories=("all",),
    has_status=True,
    has_generation=True,
    is_graceful=True,
    returns_deleted=True,
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
    plural="nodes",
    singular="node",
    short_names=("no",),
    is_namespaced=False,
    has_status=True,
    keeps_first_status=True,
    field_paths=fields("spec.unschedulable"),
)
SERVICES: Final = Kind(
    kind="Service",
    plural="services",
    singular="service",
    short_names=("svc",),
    categories=("all",),
    has_status=True,
    returns_deleted=True,
    name_faults=service_name_faults,
    field_paths=fields("spec.clusterIP", "spec.type"),
)
EVENTS: Final = Kind(
    kind="Event",
    plural="events",
    singular="event",
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
CORE: Final = (
    NAMESPACES,
    PODS,
    NODES,
    SERVICES,
    EVENTS,
    Kind(kind="ConfigMap", plural="configmaps", singular="configmap", short_names=("cm",)),
    Kind(kind="Secret", plural="secrets", singular="secret", field_paths=fields("type")),
    Kind(
        kind="PersistentVolumeClaim",
        plural="persistentvolumeclaims",
        singular="persistentvolumeclaim",
        short_names=("pvc",),
        has_status=True,
        returns_deleted=True,
    ),
    Kind(
        kind="PersistentVolume",
        plural="persistentvolumes",
        singular="persistentvolume",
        short_names=("pv",),
        is_namespaced=False,
        has_status=True,
        returns_deleted=True,
    ),
    Kind(
        kind="ServiceAccount",
        plural="serviceaccounts",
        singular="serviceaccount",
        short_names=("sa",),
        returns_deleted=True,
    ),
    Kind(
        kind="ResourceQuota",
        plural="resourcequotas",
        singular="resourcequota",
        short_names=("quota",),
        has_status=True,
        returns_deleted=True,
    ),
    Kind(
        kind="LimitRange",
        plural="limitranges",
        singular="limitrange",
        short_names=("limits",),
        creates_on_update=True,
    ),
    Kind(
        kind="Endpoints",
        plural="endpoints",
        singular="endpoints",
        short_names=("ep",),
        creates_on_update=True,
    ),
)

DEPLOYMENTS: Final = Kind(
    group=APPS,
    kind="Deployment",
    plural="deployments",
    singular="deployment",
    short_names=("deploy",),
    categories=("all",),
    has_status=True,
    has_generation=True,
    annotations_raise_generation=True,
)
REPLICA_SETS: Final = Kind(
    group=APPS,
    kind="ReplicaSet",
    plural="replicasets",
    singular="replicaset",
    short_names=("rs",),
    categories=("all",),
    has_status=True,
    has_generation=True,
    field_paths=fields("status.replicas"),
)
JOBS: Final = Kind(
    group="batch",
    kind="Job",
    plural="jobs",
    singular="job",
    categories=("all",),
    has_status=True,
    has_generation=True,
    orphans_by_default=True,
    field_paths=fields("status.successful"),
)
GROUPED: Final = (
    DEPLOYMENTS,
    REPLICA_SETS,
    JOBS,
    Kind(
        group="networking.k8s.io",
        kind="NetworkPolicy",
        plural="networkpolicies",
        singular="networkpolicy",
        short_names=("netpol",),
        has_generation=True,
    ),
    Kind(
        group="coordination.k8s.io",
        kind="Lease",
        plural="leases",
        singular="lease",
        allows_unconditional_update=False,
        creates_on_update=True,
    ),
    Kind(
        group="scheduling.k8s.io",
        kind="PriorityClass",
        plural="priorityclasses",
        singular="priorityclass",
        short_names=("pc",),
        is_namespaced=False,
        has_generation=True,
    ),
    Kind(
        group="storage.k8s.io",
        kind="StorageClass",
        plural="storageclasses",
        singular="storageclass",
        short_names=("sc",),
        is_namespaced=False,
        returns_deleted=True,
    ),
    Kind(
        group="policy",
        kind="PodDisruptionBudget",
        plural="poddisruptionbudgets",
        singular="poddisruptionbudget",
        short_names=("pdb",),
        has_status=True,
        has_generation=True,
        allows_unconditional_update=False,
    ),
    *(
        Kind(
            group=RBAC,
            kind=kind,
            plural=f"{kind.lower()}s",
            singular=kind.lower(),
            is_namespaced=not kind.startswith("Cluster"),
            creates_on_update=True,
            name_faults=path_segment_faults,
        )
        for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    ),
)

BUILTIN_KINDS: Final = CORE + GROUPED
