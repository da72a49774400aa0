"""The metrics of functions: the queue, its workers, and the ends of invocations."""

from typing import Final

from gpuruntime.telemetry.label_values import REFUSALS
from gpuruntime.telemetry.metric import UP_TO_HOURS, Kind, Label, Metric, RoleName

API: Final = (RoleName.API,)
ACTIVATOR: Final = (RoleName.ACTIVATOR,)
RESULTS: Final = (RoleName.RESULTS,)
WORKER: Final = (RoleName.WORKER,)
OF_BROKER: Final = (RoleName.API, RoleName.ACTIVATOR, RoleName.RESULTS, RoleName.WORKER)
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

BROKER_METRICS: Final = (
    Metric(
        name="bus_connected",
        kind=Kind.GAUGE,
        help="1 while there is a connection to the broker.",
        roles=OF_BROKER,
        is_reported_from_start=False,
    ),
    Metric(
        name="bus_sessions_lost_total",
        kind=Kind.COUNTER,
        help="Connections to the broker that ended or could not be made.",
        roles=OF_BROKER,
    ),
    Metric(
        name="bus_pulls_lost_total",
        kind=Kind.COUNTER,
        help="Requests for messages after which the broker fell silent.",
        roles=(RoleName.RESULTS, RoleName.WORKER),
    ),
    Metric(
        name="bus_publishes_retried_total",
        kind=Kind.COUNTER,
        help="Messages sent again because the broker had not acknowledged them.",
        roles=OF_BROKER,
    ),
)

INVOCATION_METRICS: Final = (
    Metric(
        name="serverless_invocations_total",
        kind=Kind.COUNTER,
        help="Invocations requested by callers, by the outcome of the request.",
        roles=API,
        labels=(
            Label("mode", ("async", "sync")),
            Label(
                "outcome",
                ("accepted", "duplicate", "failed", *REFUSED),
                bound="`accepted`, `duplicate`, `failed`, or the code that the caller sees",
            ),
        ),
    ),
    Metric(
        name="serverless_sync_wait_seconds",
        kind=Kind.HISTOGRAM,
        help="How long synchronous callers waited; `unfinished` means without an end in time.",
        roles=API,
        labels=(Label("outcome", (*ENDS, "unfinished")),),
        buckets=UP_TO_HOURS,
    ),
    Metric(
        name="worker_deliveries_total",
        kind=Kind.COUNTER,
        help="Messages delivered to this worker, by outcome.",
        roles=WORKER,
        labels=(
            Label(
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
            ),
        ),
    ),
    Metric(
        name="worker_busy",
        kind=Kind.GAUGE,
        help="Invocations that this worker is running.",
        roles=WORKER,
    ),
)

SCALING_METRICS: Final = (
    Metric(
        name="serverless_function_depth",
        kind=Kind.GAUGE,
        help="Invocations of a function that wait or run.",
        roles=ACTIVATOR,
        labels=(FUNCTION,),
        is_reported_from_start=False,
    ),
    Metric(
        name="serverless_function_oldest_wait_seconds",
        kind=Kind.GAUGE,
        help="How long the oldest waiting invocation of a function has waited.",
        roles=ACTIVATOR,
        labels=(FUNCTION,),
        is_reported_from_start=False,
    ),
    Metric(
        name="serverless_dead_letters",
        kind=Kind.GAUGE,
        help="Dead letters of all functions that are neither redriven nor discarded.",
        roles=ACTIVATOR,
        is_reported_from_start=False,
    ),
    Metric(
        name="serverless_depth",
        kind=Kind.GAUGE,
        help="Invocations of all functions that wait or run, as the leading activator reads it.",
        roles=ACTIVATOR,
    ),
    Metric(
        name="serverless_oldest_wait_seconds",
        kind=Kind.GAUGE,
        help="How long the oldest invocation of all functions has waited.",
        roles=ACTIVATOR,
    ),
    Metric(
        name="serverless_workers",
        kind=Kind.GAUGE,
        help="Workers of all functions by state, and how many are desired.",
        roles=ACTIVATOR,
        labels=(Label("state", ("desired", "ready", "busy", "draining")),),
    ),
    Metric(
        name="serverless_claims_total",
        kind=Kind.COUNTER,
        help="Claims of units for workers, by outcome.",
        roles=ACTIVATOR,
        labels=(
            Label(
                "outcome",
                ("claimed", "invalid_spec", *REFUSALS),
                bound="`claimed`, `invalid_spec`, or why there was no unit",
            ),
        ),
    ),
    Metric(
        name="serverless_cold_starts_total",
        kind=Kind.COUNTER,
        help="Claims of workers for a function without any ready worker.",
        roles=ACTIVATOR,
    ),
    Metric(
        name="serverless_worker_start_seconds",
        kind=Kind.HISTOGRAM,
        help="How long a worker took from its claim until it was ready.",
        roles=ACTIVATOR,
        buckets=UP_TO_HOURS,
    ),
    Metric(
        name="serverless_orphans_total",
        kind=Kind.COUNTER,
        help="Invocations that were ended because their function is no longer declared.",
        roles=ACTIVATOR,
    ),
)

RESULT_METRICS: Final = (
    Metric(
        name="serverless_invocations_ended_total",
        kind=Kind.COUNTER,
        help="Invocations that ended, by state; a redriven invocation ends again.",
        roles=RESULTS,
        labels=(Label("state", ENDS),),
    ),
    Metric(
        name="results_stored_total",
        kind=Kind.COUNTER,
        help="Results that were written to the database.",
        roles=RESULTS,
    ),
    Metric(
        name="results_known_total",
        kind=Kind.COUNTER,
        help="Results that were delivered again and were already in the database.",
        roles=RESULTS,
    ),
    Metric(
        name="results_swept_total",
        kind=Kind.COUNTER,
        help="Results that were deleted because their retention was over.",
        roles=RESULTS,
    ),
    Metric(
        name="results_expired_total",
        kind=Kind.COUNTER,
        help="Invocations that were ended because their deadline had passed.",
        roles=RESULTS,
    ),
    Metric(
        name="results_expiries_lost_total",
        kind=Kind.COUNTER,
        help="Expiries that were given up because the record had changed meanwhile.",
        roles=RESULTS,
    ),
    Metric(
        name="results_unreadable_total",
        kind=Kind.COUNTER,
        help="Records that could not be decoded and were skipped.",
        roles=RESULTS,
    ),
    Metric(
        name="results_left_total",
        kind=Kind.COUNTER,
        help="Records not handled because of the broker; they are delivered again.",
        roles=RESULTS,
    ),
    Metric(
        name="results_undelivered",
        kind=Kind.GAUGE,
        help="Records not yet delivered to any replica; each replica reports the same number.",
        roles=RESULTS,
    ),
    Metric(
        name="results_store_up",
        kind=Kind.GAUGE,
        help="1 while the database accepts results.",
        roles=RESULTS,
        is_reported_from_start=False,
    ),
    Metric(
        name="results_oldest_unstored_seconds",
        kind=Kind.GAUGE,
        help="The age of the oldest result that is not yet in the database.",
        roles=RESULTS,
        is_reported_from_start=False,
    ),
    Metric(
        name="results_database_errors_total",
        kind=Kind.COUNTER,
        help="Requests to the database that failed.",
        roles=RESULTS,
    ),
)

FUNCTION_METRICS: Final = (
    *BROKER_METRICS,
    *INVOCATION_METRICS,
    *SCALING_METRICS,
    *RESULT_METRICS,
)
