"""The metrics of the control plane: its processes, their requests to the cluster, and the API."""

from typing import Final

from gpuruntime.telemetry.label_values import REFUSALS, RULES
from gpuruntime.telemetry.metric import UP_TO_HOURS, Kind, Label, Metric, RoleName

EVERY_ROLE: Final = tuple(RoleName)
MANAGER: Final = (RoleName.MANAGER,)
API: Final = (RoleName.API,)
ELECTED: Final = (RoleName.MANAGER, RoleName.ACTIVATOR)
# The roles that use Kubernetes.
OF_CLUSTER: Final = (RoleName.MANAGER, RoleName.API, RoleName.ACTIVATOR)
CLAIMING: Final = (RoleName.API, RoleName.ACTIVATOR)

RECONCILED: Final = {
    RoleName.MANAGER: ("unit", "stock", "pool", "storage", "deletion"),
    RoleName.ACTIVATOR: ("function",),
}
ROLE: Final = Label("role", by_role={role: (role,) for role in RoleName})
RESOURCE: Final = Label("resource", bound="the kinds that we read and write")
VERB: Final = Label("verb", bound="the verbs of Kubernetes")
ERROR: Final = Label("error", bound="the classes of errors of requests")
# The mirrors of each role; several may be of one kind, so the kind alone would not do.
MIRROR: Final = Label(
    "mirror",
    by_role={
        RoleName.MANAGER: (
            "stock",
            "units",
            "pools",
            "deployments-stock",
            "deployments-instance",
            "pods-stock",
            "pods-instance",
            "services",
            "policies",
            "tombstones",
            "priorities",
            "storages",
            "claims",
            "classes",
            "jobs",
        ),
        RoleName.API: ("stock", "units", "pools", "storages", "nodes", "quotas", "services"),
        RoleName.ACTIVATOR: ("stock", "units", "pools", "storages"),
    },
)
LEASE: Final = Label("lease", bound="one, as configured")
QUEUE: Final = Label("queue", by_role=RECONCILED)
CONTROLLER: Final = Label("controller", by_role=RECONCILED)
SPEC: Final = Label("spec", bound="the specNames of existing pools, and `other`")
CLAIMED: Final = Label(
    "outcome",
    ("created", "replayed", "stopped", "invalid_request", *REFUSALS),
    bound="`created`, `replayed`, `stopped`, or the code that the caller sees",
)

PROCESS_METRICS: Final = (
    Metric(
        name="build_info",
        kind=Kind.GAUGE,
        help="Always 1; the labels name role and version.",
        roles=EVERY_ROLE,
        labels=(ROLE, Label("version", bound="one")),
        is_reported_from_start=False,
    ),
    Metric(
        name="ready",
        kind=Kind.GAUGE,
        help="1 while /readyz reports ready.",
        roles=EVERY_ROLE,
        labels=(ROLE,),
        is_reported_from_start=False,
    ),
    Metric(
        name="leading",
        kind=Kind.GAUGE,
        help="1 while this process does the leader's work: elected, and with its caches full.",
        roles=ELECTED,
        labels=(ROLE,),
        is_reported_from_start=False,
    ),
    Metric(
        name="loop_lag_seconds",
        kind=Kind.HISTOGRAM,
        help="How much later than requested the event loop wakes a task.",
        roles=EVERY_ROLE,
    ),
    Metric(
        name="loop_held_seconds",
        kind=Kind.HISTOGRAM,
        help="The longest pass of the event loop since the last sample, in processor time.",
        roles=EVERY_ROLE,
    ),
    Metric(
        name="gc_pause_seconds",
        kind=Kind.HISTOGRAM,
        help="How long one garbage collection stopped the process.",
        roles=EVERY_ROLE,
        labels=(Label("generation", ("0", "1", "2")),),
    ),
    Metric(
        name="lease_leading",
        kind=Kind.GAUGE,
        help="1 while this process holds the Lease of its election.",
        roles=ELECTED,
        labels=(LEASE,),
    ),
    Metric(
        name="lease_failures_total",
        kind=Kind.COUNTER,
        help="Attempts to take or renew the Lease that failed.",
        roles=ELECTED,
        labels=(LEASE,),
    ),
    Metric(
        name="auth_token_file_broken",
        kind=Kind.GAUGE,
        help="1 while the file of tokens is invalid; the last good one stays in effect.",
        roles=API,
    ),
)

CLUSTER_METRICS: Final = (
    Metric(
        name="kubernetes_connected",
        kind=Kind.GAUGE,
        help="1 while the API server answers; absent with `kubernetes.mode: off`.",
        roles=API,
        is_reported_from_start=False,
    ),
    Metric(
        name="kube_requests_total",
        kind=Kind.COUNTER,
        help="Requests to the API server, by the code of the answer, or else by the error.",
        roles=OF_CLUSTER,
        labels=(VERB, RESOURCE, Label("code", bound="HTTP codes and the classes of errors")),
    ),
    Metric(
        name="kube_request_seconds",
        kind=Kind.HISTOGRAM,
        help="How long a request to the API server took, successful or not.",
        roles=OF_CLUSTER,
        labels=(VERB, RESOURCE),
    ),
    Metric(
        name="informer_events_total",
        kind=Kind.COUNTER,
        help="Changes received from watches.",
        roles=OF_CLUSTER,
        labels=(MIRROR, Label("type", ("ADDED", "MODIFIED", "DELETED"))),
    ),
    Metric(
        name="informer_watch_restarts_total",
        kind=Kind.COUNTER,
        help="Watch windows that ended: `ended` in time, or by an error.",
        roles=OF_CLUSTER,
        labels=(MIRROR, Label("cause", bound="`ended`, and the classes of errors")),
    ),
    Metric(
        name="informer_relists_total",
        kind=Kind.COUNTER,
        help="Lists after the first one, because the server had forgotten the watch's version.",
        roles=OF_CLUSTER,
        labels=(MIRROR,),
    ),
    Metric(
        name="informer_failures_total",
        kind=Kind.COUNTER,
        help="Lists and watches that failed.",
        roles=OF_CLUSTER,
        labels=(MIRROR, ERROR),
    ),
    Metric(
        name="informer_failures_in_a_row",
        kind=Kind.GAUGE,
        help="How often a mirror has failed since it last succeeded.",
        roles=OF_CLUSTER,
        labels=(MIRROR,),
    ),
    Metric(
        name="informer_divergence_total",
        kind=Kind.COUNTER,
        help="Objects in which a mirror differed from the server, until a new list.",
        roles=OF_CLUSTER,
        labels=(MIRROR,),
    ),
    Metric(
        name="workqueue_depth",
        kind=Kind.GAUGE,
        help="Keys that wait for a worker.",
        roles=ELECTED,
        labels=(QUEUE,),
    ),
    Metric(
        name="workqueue_oldest_seconds",
        kind=Kind.GAUGE,
        help="How long the next key has waited; it grows if nothing serves the queue.",
        roles=ELECTED,
        labels=(QUEUE,),
        is_reported_from_start=False,
    ),
    Metric(
        name="workqueue_adds_total",
        kind=Kind.COUNTER,
        help="Keys that were added; repeated adds of a waiting key count once.",
        roles=ELECTED,
        labels=(QUEUE,),
    ),
    Metric(
        name="workqueue_wait_seconds",
        kind=Kind.HISTOGRAM,
        help="How long a key waited before it was handed out.",
        roles=ELECTED,
        labels=(QUEUE, Label("lane", ("begun", "new", "backlog"))),
    ),
    Metric(
        name="reconciles_total",
        kind=Kind.COUNTER,
        help="Reconciles by outcome; `failed` is a bug.",
        roles=ELECTED,
        labels=(
            CONTROLLER,
            Label(
                "outcome",
                ("done", "requeued", "terminal", "conflict", "cluster_error", "failed"),
            ),
        ),
    ),
    Metric(
        name="reconcile_seconds",
        kind=Kind.HISTOGRAM,
        help="How long one reconcile took.",
        roles=ELECTED,
        labels=(CONTROLLER,),
    ),
    Metric(
        name="events_sent_total",
        kind=Kind.COUNTER,
        help="Kubernetes Events that were written.",
        roles=ELECTED,
    ),
    Metric(
        name="events_dropped_total",
        kind=Kind.COUNTER,
        help="Kubernetes Events that were dropped, by cause.",
        roles=ELECTED,
        labels=(Label("cause", ("rate", "backlog", "stopped", "refused", "unavailable")),),
    ),
)

OBJECT_METRICS: Final = (
    Metric(
        name="stock_units",
        kind=Kind.GAUGE,
        help="Stock units by state; `available` ones can be claimed now.",
        roles=MANAGER,
        labels=(SPEC, Label("state", ("available", "claimed", "progressing", "failed"))),
        is_reported_from_start=False,
    ),
    Metric(
        name="stock_wanted",
        kind=Kind.GAUGE,
        help="Unclaimed stock units that all pools with `refill: Always` should hold.",
        roles=MANAGER,
        labels=(SPEC,),
        is_reported_from_start=False,
    ),
    Metric(
        name="units",
        kind=Kind.GAUGE,
        help="Active units by phase.",
        roles=MANAGER,
        labels=(SPEC, Label("phase", ("Progressing", "Ready", "Suspended", "Failed"))),
        is_reported_from_start=False,
    ),
    Metric(
        name="storages",
        kind=Kind.GAUGE,
        help="Storages by phase.",
        roles=MANAGER,
        labels=(Label("phase", ("Pending", "Ready", "Failed")),),
        is_reported_from_start=False,
    ),
    Metric(
        name="pools",
        kind=Kind.GAUGE,
        help="Pools by phase.",
        roles=MANAGER,
        labels=(Label("phase", ("Progressing", "Ready", "Empty", "Failed")),),
        is_reported_from_start=False,
    ),
    Metric(
        name="unit_stage_seconds",
        kind=Kind.HISTOGRAM,
        help="How long active units took for each stage until they were first ready.",
        roles=MANAGER,
        labels=(Label("stage", ("claim", "create", "schedule", "start", "ready", "total")),),
        buckets=UP_TO_HOURS,
    ),
    Metric(
        name="audit_breaches",
        kind=Kind.GAUGE,
        help="Breaches of each invariant that the leading manager finds; above 0 is a fault.",
        roles=MANAGER,
        labels=(Label("rule", RULES, bound="the invariants of the audit"),),
    ),
)

REQUEST_METRICS: Final = (
    Metric(
        name="http_request_seconds",
        kind=Kind.HISTOGRAM,
        help="Requests of callers; code 0 means that the connection was cut.",
        roles=API,
        labels=(
            Label("method", bound="the methods that are served, and `other`"),
            Label("route", bound="the templates of the routes, and `unknown`"),
            Label("code", bound="HTTP codes"),
        ),
    ),
    Metric(
        name="claims_total",
        kind=Kind.COUNTER,
        help="Requests for a unit by outcome; the template of a function claims no stock.",
        roles=CLAIMING,
        labels=(CLAIMED,),
    ),
    Metric(
        name="claim_seconds",
        kind=Kind.HISTOGRAM,
        help="How long a request for a unit took.",
        roles=CLAIMING,
        labels=(CLAIMED,),
    ),
    Metric(
        name="inventory_claim_conflicts_total",
        kind=Kind.COUNTER,
        help="Claims of a stock unit that had changed meanwhile, by the state that was found.",
        roles=OF_CLUSTER,
        labels=(Label("seen", ("Won", "Reusable", "StillFree", "Elsewhere")),),
    ),
)

CONTROL_METRICS: Final = (
    *PROCESS_METRICS,
    *CLUSTER_METRICS,
    *OBJECT_METRICS,
    *REQUEST_METRICS,
)
