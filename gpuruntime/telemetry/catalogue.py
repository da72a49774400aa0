"""Every metric of the product, as one table; no other metric can be counted."""

from typing import Final

from gpuruntime.telemetry.label_values import GATEWAY_REFUSALS, REFUSALS, RULES
from gpuruntime.telemetry.metric import UP_TO_HOURS, Kind, Label, Metric, RoleName

COUNTER: Final = Kind.COUNTER
GAUGE: Final = Kind.GAUGE
HISTOGRAM: Final = Kind.HISTOGRAM

EVERY_ROLE: Final = tuple(RoleName)
MANAGER: Final = (RoleName.MANAGER,)
API: Final = (RoleName.API,)
ELECTED: Final = (RoleName.MANAGER, RoleName.ACTIVATOR)
# The roles that use Kubernetes.
OF_CLUSTER: Final = (RoleName.MANAGER, RoleName.API, RoleName.ACTIVATOR, RoleName.GATEWAY)
# Those of them that write.
OF_OBJECTS: Final = (RoleName.MANAGER, RoleName.API, RoleName.ACTIVATOR)
CLAIMING: Final = (RoleName.API, RoleName.ACTIVATOR)
ACTIVATOR: Final = (RoleName.ACTIVATOR,)
GATEWAY: Final = (RoleName.GATEWAY,)
RESULTS: Final = (RoleName.RESULTS,)
WORKER: Final = (RoleName.WORKER,)
OF_BROKER: Final = (RoleName.API, RoleName.ACTIVATOR, RoleName.RESULTS, RoleName.WORKER)

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
        RoleName.API: (
            "stock",
            "units",
            "pools",
            "storages",
            "nodes",
            "quotas",
            "services",
            "pods",
        ),
        RoleName.ACTIVATOR: ("stock", "units", "pools", "storages"),
        RoleName.GATEWAY: ("units", "services"),
    },
)
LEASE: Final = Label("lease", bound="one, as configured")
QUEUE: Final = Label("queue", by_role=RECONCILED)
CONTROLLER: Final = Label("controller", by_role=RECONCILED)
SPEC: Final = Label("spec", bound="the specNames of existing pools, and `other`")
PRODUCT: Final = Label("product", bound="the products of the nodes' GPUs")
GPU_STATE: Final = Label("state", ("capacity", "allocatable", "stock", "units", "others", "free"))
CLAIMED: Final = Label(
    "outcome",
    ("created", "replayed", "stopped", "invalid_request", *REFUSALS),
    bound="`created`, `replayed`, `stopped`, or the code that the caller sees",
)
ENDS: Final = ("succeeded", "failed", "expired", "cancelled", "dead_lettered")
FUNCTION: Final = Label("function", bound="the declared functions")
# The codes by which callers see that an invocation is refused.
REFUSED: Final = (
    "already_finished",
    "body_too_large",
    "dead_letter_not_found",
    "function_not_found",
    "invocation_not_found",
    "operation_conflict",
    "queue_full",
    "service_unavailable",
    "timeout",
)

METHOD: Final = Label("method", bound="the methods that are served, and `other`")
ROUTE: Final = Label("route", bound="the templates of the routes, and `unknown`")
RECONCILE: Final = Label(
    "outcome", ("done", "requeued", "terminal", "conflict", "cluster_error", "failed")
)
ACCEPTED: Final = Label(
    "outcome",
    ("accepted", "duplicate", "failed", *REFUSED),
    bound="`accepted`, `duplicate`, `failed`, or the code that the caller sees",
)
WORKER_CLAIMED: Final = Label(
    "outcome",
    ("claimed", "invalid_spec", *REFUSALS),
    bound="`claimed`, `invalid_spec`, or why there was no unit",
)
DELIVERED: Final = Label(
    "end",
    (
        *ENDS,
        "again",
        "dropped",
        "foreign",
        "left",
        "malformed",
        "not_wanted",
        "over",
        "released",
        "stood_still",
        "superseded",
    ),
)

# fmt: off
CATALOGUE: Final[tuple[Metric, ...]] = (
    # Processes.
    Metric(GAUGE, "build_info", EVERY_ROLE, (ROLE, Label("version", bound="one")),
           "Always 1; the labels name role and version.", is_reported_from_start=False),
    Metric(GAUGE, "ready", EVERY_ROLE, (ROLE,),
           "1 while /readyz reports ready.", is_reported_from_start=False),
    Metric(GAUGE, "leading", ELECTED, (ROLE,),
           "1 while this process does the leader's work: elected, and with its caches full.",
           is_reported_from_start=False),
    Metric(HISTOGRAM, "loop_lag_seconds", EVERY_ROLE, (),
           "How much later than requested the event loop wakes a task."),
    Metric(HISTOGRAM, "loop_held_seconds", EVERY_ROLE, (),
           "The longest pass of the event loop since the last sample, in processor time."),
    Metric(HISTOGRAM, "gc_pause_seconds", EVERY_ROLE, (Label("generation", ("0", "1", "2")),),
           "How long one garbage collection stopped the process."),
    Metric(GAUGE, "lease_leading", ELECTED, (LEASE,),
           "1 while this process holds the Lease of its election."),
    Metric(COUNTER, "lease_failures_total", ELECTED, (LEASE,),
           "Attempts to take or renew the Lease that failed."),
    Metric(GAUGE, "auth_token_file_broken", API, (),
           "1 while the file of tokens is invalid; the last good one stays in effect."),
    Metric(GAUGE, "ticket_keys", (RoleName.API, RoleName.GATEWAY),
           (Label("state", ("signing", "verifying", "expired", "broken")),),
           "Keys of tickets by state; `broken` is 1 while their file is invalid: the last good one"
           " stays in effect."),
    # Requests to the cluster, mirrors, queues and reconciles.
    Metric(GAUGE, "kubernetes_connected", API, (),
           "1 while the API server answers; absent with `kubernetes.mode: off`.",
           is_reported_from_start=False),
    Metric(COUNTER, "kube_requests_total", OF_CLUSTER,
           (VERB, RESOURCE, Label("code", bound="HTTP codes and the classes of errors")),
           "Requests to the API server, by the code of the answer, or else by the error."),
    Metric(HISTOGRAM, "kube_request_seconds", OF_CLUSTER, (VERB, RESOURCE),
           "How long a request to the API server took, successful or not."),
    Metric(COUNTER, "informer_events_total", OF_CLUSTER,
           (MIRROR, Label("type", ("ADDED", "MODIFIED", "DELETED"))),
           "Changes received from watches."),
    Metric(COUNTER, "informer_watch_restarts_total", OF_CLUSTER,
           (MIRROR, Label("cause", bound="`ended`, and the classes of errors")),
           "Watch windows that ended: `ended` in time, or by an error."),
    Metric(COUNTER, "informer_relists_total", OF_CLUSTER, (MIRROR,),
           "Lists after the first one, because the server had forgotten the watch's version."),
    Metric(COUNTER, "informer_failures_total", OF_CLUSTER, (MIRROR, ERROR),
           "Lists and watches that failed."),
    Metric(GAUGE, "informer_failures_in_a_row", OF_CLUSTER, (MIRROR,),
           "How often a mirror has failed since it last succeeded."),
    Metric(COUNTER, "informer_divergence_total", OF_CLUSTER, (MIRROR,),
           "Objects in which a mirror differed from the server, until a new list."),
    Metric(GAUGE, "workqueue_depth", ELECTED, (QUEUE,),
           "Keys that wait for a worker."),
    Metric(GAUGE, "workqueue_oldest_seconds", ELECTED, (QUEUE,),
           "How long the next key has waited; it grows if nothing serves the queue.",
           is_reported_from_start=False),
    Metric(COUNTER, "workqueue_adds_total", ELECTED, (QUEUE,),
           "Keys that were added; repeated adds of a waiting key count once."),
    Metric(HISTOGRAM, "workqueue_wait_seconds", ELECTED,
           (QUEUE, Label("lane", ("begun", "new", "backlog"))),
           "How long a key waited before it was handed out."),
    Metric(COUNTER, "reconciles_total", ELECTED,
           (CONTROLLER, RECONCILE),
           "Reconciles by outcome; `failed` is a bug."),
    Metric(HISTOGRAM, "reconcile_seconds", ELECTED, (CONTROLLER,),
           "How long one reconcile took."),
    Metric(COUNTER, "events_sent_total", OF_OBJECTS, (),
           "Kubernetes Events that were written."),
    Metric(COUNTER, "events_dropped_total", OF_OBJECTS,
           (Label("cause", ("rate", "backlog", "stopped", "refused", "unavailable")),),
           "Kubernetes Events that were dropped, by cause."),
    # Objects.
    Metric(GAUGE, "stock_units", MANAGER,
           (SPEC, Label("state", ("available", "claimed", "progressing", "failed"))),
           "Stock units by state; `available` ones can be claimed now.",
           is_reported_from_start=False),
    Metric(GAUGE, "stock_wanted", MANAGER, (SPEC,),
           "Unclaimed stock units that all pools with `refill: Always` should hold.",
           is_reported_from_start=False),
    Metric(GAUGE, "units", MANAGER,
           (SPEC, Label("phase", ("Progressing", "Ready", "Suspended", "Failed"))),
           "Active units by phase; declared functions run nothing and do not count.",
           is_reported_from_start=False),
    Metric(GAUGE, "gpus", API, (PRODUCT, GPU_STATE),
           "GPUs of all nodes; held ones are requested by Pods. Each replica reports the same.",
           is_reported_from_start=False),
    Metric(GAUGE, "node_gpus", API,
           (Label("node", bound="the nodes with GPUs"), PRODUCT, GPU_STATE),
           "GPUs of each node, as in `gpus`.", is_reported_from_start=False),
    Metric(GAUGE, "storages", MANAGER, (Label("phase", ("Pending", "Ready", "Failed")),),
           "Storages by phase.", is_reported_from_start=False),
    Metric(GAUGE, "pools", MANAGER, (Label("phase", ("Progressing", "Ready", "Empty", "Failed")),),
           "Pools by phase.", is_reported_from_start=False),
    Metric(HISTOGRAM, "unit_stage_seconds", MANAGER,
           (Label("stage", ("claim", "create", "schedule", "start", "ready", "total")),),
           "How long active units took for each stage until they were first ready.",
           buckets=UP_TO_HOURS),
    Metric(GAUGE, "audit_breaches", MANAGER,
           (Label("rule", RULES, bound="the invariants of the audit"),),
           "Breaches of each invariant that the leading manager finds; above 0 is a fault."),
    Metric(COUNTER, "activity_readings_total", MANAGER,
           (Label("outcome", ("read", "unreachable", "malformed", "not_listed")),),
           "Readings of the gateway's replicas by outcome; any other than `read` makes all units"
           " count as active."),
    Metric(GAUGE, "activity_known_seconds", MANAGER, (),
           "For how long the leader has read every replica of the gateway; it knows of no"
           " longer idle time.", is_reported_from_start=False),
    # Requests of callers.
    Metric(HISTOGRAM, "http_request_seconds", API,
           (METHOD, ROUTE, Label("code", bound="HTTP codes")),
           "Requests of callers; code 0 means that the connection was cut."),
    Metric(COUNTER, "claims_total", CLAIMING, (CLAIMED,),
           "Requests for a unit by outcome; the template of a function claims no stock."),
    Metric(HISTOGRAM, "claim_seconds", CLAIMING, (CLAIMED,),
           "How long a request for a unit took."),
    Metric(COUNTER, "inventory_claim_conflicts_total", OF_OBJECTS,
           (Label("seen", ("Won", "Reusable", "StillFree", "Elsewhere")),),
           "Claims of a stock unit that had changed meanwhile, by the state that was found."),
    # Connections of callers to units.
    Metric(GAUGE, "gateway_connections", GATEWAY,
           (Label("kind", ("http", "websocket", "exec", "forward", "ssh")),),
           "Open connections of callers to units.", is_reported_from_start=False),
    Metric(COUNTER, "gateway_requests_total", GATEWAY,
           (Label("kind", ("http", "websocket")),
            Label("outcome", ("answered", "refused", "failed"))),
           "Requests for ports of units; `failed` ones reached no answer of the unit."),
    Metric(COUNTER, "gateway_bytes_total", GATEWAY,
           (Label("direction", ("to_unit", "to_caller")),),
           "Bytes of bodies and WebSockets that were passed on."),
    Metric(HISTOGRAM, "gateway_added_seconds", GATEWAY, (),
           "The part of a request's time until the answer's head that the gateway itself took."),
    Metric(COUNTER, "gateway_wakes_total", GATEWAY,
           (Label("outcome", ("accepted", "refused", "unreachable")),),
           "Requests to the API to resume a unit, by outcome."),
    Metric(COUNTER, "gateway_refused_total", GATEWAY, (Label("reason", GATEWAY_REFUSALS),),
           "Requests that the gateway refused, by the reason of a ticket or else by the code."),
    Metric(GAUGE, "gateway_watch_age_seconds", GATEWAY, (),
           "For how long a revocation may have been missed; above 60 tickets are refused.",
           is_reported_from_start=False),
    # Connections to the broker.
    Metric(GAUGE, "bus_connected", OF_BROKER, (),
           "1 while there is a connection to the broker.", is_reported_from_start=False),
    Metric(COUNTER, "bus_sessions_lost_total", OF_BROKER, (),
           "Connections to the broker that ended or could not be made."),
    Metric(COUNTER, "bus_pulls_lost_total", (RoleName.RESULTS, RoleName.WORKER), (),
           "Requests for messages after which the broker fell silent."),
    Metric(COUNTER, "bus_publishes_retried_total", OF_BROKER, (),
           "Messages sent again because the broker had not acknowledged them."),
    # Invocations.
    Metric(COUNTER, "serverless_invocations_total", API,
           (Label("mode", ("async", "sync")), ACCEPTED),
           "Invocations requested by callers, by the outcome of the request."),
    Metric(HISTOGRAM, "serverless_sync_wait_seconds", API,
           (Label("outcome", (*ENDS, "unfinished")),),
           "How long synchronous callers waited; `unfinished` means without an end in time.",
           buckets=UP_TO_HOURS),
    Metric(COUNTER, "worker_deliveries_total", WORKER,
           (DELIVERED,),
           "Messages delivered to this worker, by outcome."),
    Metric(GAUGE, "worker_busy", WORKER, (),
           "Invocations that this worker is running."),
    # Workers and their functions.
    Metric(GAUGE, "serverless_function_depth", ACTIVATOR, (FUNCTION,),
           "Invocations of a function that wait or run.", is_reported_from_start=False),
    Metric(GAUGE, "serverless_function_oldest_wait_seconds", ACTIVATOR, (FUNCTION,),
           "How long the oldest waiting invocation of a function has waited.",
           is_reported_from_start=False),
    Metric(GAUGE, "serverless_dead_letters", ACTIVATOR, (),
           "Dead letters of all functions that are neither redriven nor discarded.",
           is_reported_from_start=False),
    Metric(GAUGE, "serverless_depth", ACTIVATOR, (),
           "Invocations of all functions that wait or run, as the leading activator reads it."),
    Metric(GAUGE, "serverless_oldest_wait_seconds", ACTIVATOR, (),
           "How long the oldest invocation of all functions has waited."),
    Metric(GAUGE, "serverless_workers", ACTIVATOR,
           (Label("state", ("desired", "ready", "busy", "draining")),),
           "Workers of all functions by state, and how many are desired."),
    Metric(COUNTER, "serverless_claims_total", ACTIVATOR,
           (WORKER_CLAIMED,),
           "Claims of units for workers, by outcome."),
    Metric(COUNTER, "serverless_cold_starts_total", ACTIVATOR, (),
           "Claims of workers for a function without any ready worker."),
    Metric(HISTOGRAM, "serverless_worker_start_seconds", ACTIVATOR, (),
           "How long a worker took from its claim until it was ready.", buckets=UP_TO_HOURS),
    Metric(COUNTER, "serverless_orphans_total", ACTIVATOR, (),
           "Invocations that were ended because their function is no longer declared."),
    # Results.
    Metric(COUNTER, "serverless_invocations_ended_total", RESULTS, (Label("state", ENDS),),
           "Invocations that ended, by state; a redriven invocation ends again."),
    Metric(COUNTER, "results_stored_total", RESULTS, (),
           "Results that were written to the database."),
    Metric(COUNTER, "results_known_total", RESULTS, (),
           "Results that were delivered again and were already in the database."),
    Metric(COUNTER, "results_swept_total", RESULTS, (),
           "Results that were deleted because their retention was over."),
    Metric(COUNTER, "results_expired_total", RESULTS, (),
           "Invocations that were ended because their deadline had passed."),
    Metric(COUNTER, "results_expiries_lost_total", RESULTS, (),
           "Expiries that were given up because the record had changed meanwhile."),
    Metric(COUNTER, "results_unreadable_total", RESULTS, (),
           "Records that could not be decoded and were skipped."),
    Metric(COUNTER, "results_left_total", RESULTS, (),
           "Records not handled because of the broker; they are delivered again."),
    Metric(GAUGE, "results_undelivered", RESULTS, (),
           "Records not yet delivered to any replica; each replica reports the same number."),
    Metric(GAUGE, "results_store_up", RESULTS, (),
           "1 while the database accepts results.", is_reported_from_start=False),
    Metric(GAUGE, "results_oldest_unstored_seconds", RESULTS, (),
           "The age of the oldest result that is not yet in the database.",
           is_reported_from_start=False),
    Metric(COUNTER, "results_database_errors_total", RESULTS, (),
           "Requests to the database that failed."),
)
# fmt: on
