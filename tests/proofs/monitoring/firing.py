# ruff: noqa: E501 - a series is one line
"""The series that make each alert fire, and those of a healthy installation."""

from typing import Final

MINUTES: Final = 120
# Labels of one pod of each role.
MANAGER: Final = 'namespace="n",pod="manager-0",instance="m:8081"'
API: Final = 'namespace="n",pod="api-0",instance="a:8081"'
ACTIVATOR: Final = 'namespace="n",pod="activator-0",instance="c:8081"'
GATEWAY: Final = 'namespace="n",pod="gateway-0",instance="g:8081"'
RESULTS: Final = 'namespace="n",pod="results-0",instance="r:8081"'


def always(value: float) -> str:
    return f"{value}+0x{MINUTES}"


def growing(by: float) -> str:
    """Return a series that grows by this amount each minute."""
    return f"0+{by}x{MINUTES}"


def slow(name: str, labels: str, *, bound: str) -> dict[str, str]:
    """Return a histogram in which every observation exceeds the bound."""
    return {
        f'{name}{{{labels},le="{bound}"}}': always(0),
        f'{name}{{{labels},le="3600.0"}}': growing(60),
        f'{name}{{{labels},le="+Inf"}}': growing(60),
    }


def quick(name: str, labels: str) -> dict[str, str]:
    return {
        f'{name}{{{labels},le="0.1"}}': growing(60),
        f'{name}{{{labels},le="+Inf"}}': growing(60),
    }


HEALTHY: Final[dict[str, str]] = {
    f'gpuruntime_build_info{{{MANAGER},role="manager",version="1"}}': always(1),
    f"process_start_time_seconds{{{MANAGER}}}": always(1),
    f'gpuruntime_leading{{{MANAGER},role="manager"}}': always(1),
    'gpuruntime_leading{namespace="n",pod="manager-1",instance="s:8081",role="manager"}': always(
        0
    ),
    f'gpuruntime_leading{{{ACTIVATOR},role="activator"}}': always(1),
    f'gpuruntime_ready{{{MANAGER},role="manager"}}': always(1),
    f'gpuruntime_ready{{{API},role="api"}}': always(1),
    f'gpuruntime_ready{{{GATEWAY},role="gateway"}}': always(1),
    f"gpuruntime_gateway_watch_age_seconds{{{GATEWAY}}}": always(12),
    f'gpuruntime_gateway_refused_total{{{GATEWAY},reason="too_many_connections"}}': always(2),
    f'gpuruntime_gateway_refused_total{{{GATEWAY},reason="expired"}}': growing(5),
    f"gpuruntime_activity_known_seconds{{{MANAGER}}}": growing(60),
    f'gpuruntime_activity_readings_total{{{MANAGER},outcome="read"}}': growing(4),
    f'gpuruntime_activity_readings_total{{{MANAGER},outcome="unreachable"}}': always(1),
    f"gpuruntime_kubernetes_connected{{{API}}}": always(1),
    f"gpuruntime_bus_connected{{{API}}}": always(1),
    f"gpuruntime_auth_token_file_broken{{{API}}}": always(0),
    f'gpuruntime_ticket_keys{{{API},state="broken"}}': always(0),
    f'gpuruntime_ticket_keys{{{API},state="signing"}}': always(1),
    f'gpuruntime_kube_requests_total{{{API},verb="get",resource="nodes",code="200"}}': growing(60),
    f'gpuruntime_kube_requests_total{{{API},verb="get",resource="nodes",code="503"}}': growing(1),
    f'gpuruntime_informer_watch_restarts_total{{{API},mirror="stock",cause="ended"}}': growing(1),
    f'gpuruntime_informer_divergence_total{{{MANAGER},mirror="stock"}}': always(0),
    f'gpuruntime_reconciles_total{{{MANAGER},controller="unit",outcome="done"}}': growing(60),
    f'gpuruntime_reconciles_total{{{MANAGER},controller="unit",outcome="failed"}}': always(0),
    f'gpuruntime_workqueue_oldest_seconds{{{MANAGER},queue="unit"}}': always(1),
    f'gpuruntime_http_request_seconds_count{{{API},method="GET",route="/",code="200"}}': growing(
        60
    ),
    f'gpuruntime_http_request_seconds_count{{{API},method="GET",route="/",code="504"}}': growing(
        1
    ),
    f'gpuruntime_claims_total{{{API},outcome="created"}}': growing(60),
    f'gpuruntime_claims_total{{{API},outcome="insufficient_capacity"}}': always(3),
    f'gpuruntime_stock_units{{{MANAGER},spec="a",state="available"}}': always(3),
    f'gpuruntime_stock_wanted{{{MANAGER},spec="a"}}': always(5),
    # This stock is used up and not to be refilled.
    f'gpuruntime_stock_units{{{MANAGER},spec="b",state="available"}}': always(0),
    f'gpuruntime_stock_wanted{{{MANAGER},spec="b"}}': always(0),
    f'gpuruntime_stock_units{{{MANAGER},spec="a",state="failed"}}': always(0),
    f'gpuruntime_storages{{{MANAGER},phase="Failed"}}': always(0),
    f'gpuruntime_audit_breaches{{{MANAGER},rule="pool-sum"}}': always(0),
    f'gpuruntime_serverless_function_oldest_wait_seconds{{{ACTIVATOR},function="f"}}': always(20),
    f"gpuruntime_serverless_dead_letters{{{ACTIVATOR}}}": always(7),
    f"gpuruntime_results_store_up{{{RESULTS}}}": always(1),
    f"gpuruntime_results_oldest_unstored_seconds{{{RESULTS}}}": always(0),
    **quick("gpuruntime_loop_lag_seconds_bucket", MANAGER),
    **quick("gpuruntime_claim_seconds_bucket", f'{API},outcome="created"'),
    **quick("gpuruntime_unit_stage_seconds_bucket", f'{MANAGER},stage="total"'),
}

# The difference from the healthy series; `None` stands for no series at all.
FIRING: Final[dict[str, dict[str, str] | None]] = {
    "GpuruntimeManagerWithoutLeader": None,
    "GpuruntimeActivatorWithoutLeader": {
        f'gpuruntime_leading{{{ACTIVATOR},role="activator"}}': always(0)
    },
    "GpuruntimeSeveralLeaders": {
        'gpuruntime_leading{namespace="n",pod="x",role="manager"}': always(1)
    },
    "GpuruntimeApiUnavailable": {f'gpuruntime_ready{{{API},role="api"}}': always(0)},
    "GpuruntimeRoleNotReady": {f'gpuruntime_ready{{{MANAGER},role="manager"}}': always(0)},
    "GpuruntimeRoleRestarts": {f"process_start_time_seconds{{{MANAGER}}}": growing(1)},
    "GpuruntimeLoopLag": slow("gpuruntime_loop_lag_seconds_bucket", MANAGER, bound="1.0"),
    "GpuruntimeApiDisconnected": {f"gpuruntime_kubernetes_connected{{{API}}}": always(0)},
    "GpuruntimeClusterRequestsFail": {
        f'gpuruntime_kube_requests_total{{{API},verb="get",resource="nodes",code="503"}}': growing(
            9
        )
    },
    "GpuruntimeWatchesFlap": {
        f'gpuruntime_informer_watch_restarts_total{{{API},mirror="stock",cause="UnreachableError"}}': growing(
            1
        )
    },
    "GpuruntimeMirrorDiverged": {
        f'gpuruntime_informer_divergence_total{{{MANAGER},mirror="stock"}}': f"0+0x30 3+0x{MINUTES}"
    },
    "GpuruntimeReconcilesFail": {
        f'gpuruntime_reconciles_total{{{MANAGER},controller="unit",outcome="failed"}}': growing(1)
    },
    "GpuruntimeQueueStuck": {
        f'gpuruntime_workqueue_oldest_seconds{{{MANAGER},queue="unit"}}': growing(60)
    },
    "GpuruntimeRequestsFail": {
        f'gpuruntime_http_request_seconds_count{{{API},method="GET",route="/",code="504"}}': growing(
            9
        )
    },
    "GpuruntimeClaimsFail": {f'gpuruntime_claims_total{{{API},outcome="timeout"}}': growing(9)},
    "GpuruntimeClaimsWithoutStock": {
        f'gpuruntime_claims_total{{{API},outcome="insufficient_capacity"}}': growing(1)
    },
    "GpuruntimeClaimsSlow": slow(
        "gpuruntime_claim_seconds_bucket", f'{API},outcome="created"', bound="5.0"
    ),
    "GpuruntimeTokenFileBroken": {f"gpuruntime_auth_token_file_broken{{{API}}}": always(1)},
    "GpuruntimeTicketKeysBroken": {f'gpuruntime_ticket_keys{{{API},state="broken"}}': always(1)},
    "GpuruntimeGatewayUnavailable": {f'gpuruntime_ready{{{GATEWAY},role="gateway"}}': always(0)},
    "GpuruntimeGatewayBlind": {f"gpuruntime_gateway_watch_age_seconds{{{GATEWAY}}}": growing(60)},
    "GpuruntimeGatewayFull": {
        f'gpuruntime_gateway_refused_total{{{GATEWAY},reason="too_many_connections"}}': growing(1)
    },
    "GpuruntimeActivityNotRead": {
        f'gpuruntime_activity_readings_total{{{MANAGER},outcome="unreachable"}}': growing(1)
    },
    "GpuruntimeNoStock": {
        f'gpuruntime_stock_units{{{MANAGER},spec="a",state="available"}}': always(0)
    },
    "GpuruntimeStockFailed": {
        f'gpuruntime_stock_units{{{MANAGER},spec="a",state="failed"}}': always(1)
    },
    "GpuruntimeUnitsSlow": slow(
        "gpuruntime_unit_stage_seconds_bucket", f'{MANAGER},stage="total"', bound="2400.0"
    ),
    "GpuruntimeStorageFailed": {f'gpuruntime_storages{{{MANAGER},phase="Failed"}}': always(1)},
    "GpuruntimeInvariantBroken": {
        f'gpuruntime_audit_breaches{{{MANAGER},rule="pool-sum"}}': always(1)
    },
    "GpuruntimeBrokerDisconnected": {f"gpuruntime_bus_connected{{{API}}}": always(0)},
    "GpuruntimeInvocationsWait": {
        f'gpuruntime_serverless_function_oldest_wait_seconds{{{ACTIVATOR},function="f"}}': growing(
            60
        )
    },
    "GpuruntimeDeadLettersGrow": {
        f"gpuruntime_serverless_dead_letters{{{ACTIVATOR}}}": growing(0.1)
    },
    "GpuruntimeResultsNotStored": {f"gpuruntime_results_store_up{{{RESULTS}}}": always(0)},
}
# The healthy series that a slow one replaces.
INSTEAD: Final = {
    "GpuruntimeLoopLag": "gpuruntime_loop_lag_seconds_bucket",
    "GpuruntimeClaimsSlow": "gpuruntime_claim_seconds_bucket",
    "GpuruntimeUnitsSlow": "gpuruntime_unit_stage_seconds_bucket",
}


def series_of(alert: str) -> dict[str, str]:
    """Return healthy series except those that the alert is about."""
    bad = FIRING[alert]
    if bad is None:
        return {}
    replaced = INSTEAD.get(alert, "no series")
    kept = {name: values for name, values in HEALTHY.items() if not name.startswith(replaced)}
    return {**kept, **bad}
