"""A real Prometheus scrapes the whole product and can evaluate each rule and query."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.eventually import equals, eventually_blocking
from tests.proofs.monitoring.prometheus import Prometheus, prometheus
from tests.proofs.monitoring.promql import parse
from tests.proofs.monitoring.rules import Alert, alerts, queries
from tests.proofs.real_cluster.product import Caller, Process
from tests.rooms.roles.programs import programs

pytestmark = pytest.mark.cluster

POOL = {"operationID": "pool", "name": "pool", "specName": "a1", "replicas": 3}
ECHO = ["python", "-m", "gpuruntime.framework.echo"]
OPERATIONS = re.compile(r'"address": "(http://[^"]+)", "event": "operations listening"')
# Series that do not occur here, with the reason.
SILENT = {
    'code=~"5..': "no request fails",
    'cause!="ended"': "no watch breaks off",
    "gpuruntime_results_store_up": "there is no database",
    "gpuruntime_results_oldest_unstored_seconds": "there is no database",
    "gpuruntime_inventory_claim_conflicts_total": "dev's api alone claims",
}


def is_silent(text: str) -> bool:
    return any(part in text for part in SILENT)


def work(dev: Process) -> None:
    """Cause all that the dashboard shows, once: stock, a unit, a storage, a function, a call."""
    caller = Caller(dev.address)
    assert caller.post("/operator/stockpools", POOL).status == 202
    caller.until("/gpu-units?lifecycle=stock&phase=Ready", lambda units: len(units) == 3)
    unit = {"operationID": "unit", "name": "unit", "specName": "a1", "image": "python:3.12"}
    assert caller.post("/gpu-units", unit).status == 201
    caller.until("/gpu-units/unit", lambda found: found["phase"] == "Ready")
    assert caller.post("/gpu-storages", {"name": "data", "size": "1Gi"}).status == 201
    serverless = {"requestID": "echo", "maxAttempts": 1}
    template = {"command": ECHO}
    function = {**unit, "operationID": "f", "name": "f", "template": template}
    assert caller.post("/gpu-units", {**function, "serverless": serverless}).status == 201
    call(caller)


def call(caller: Caller) -> None:
    order = {"serverlessRequestID": "echo", "mode": "sync", "payload": {"text": "hello"}}
    answer = caller.post("/serverless/invocations", order)
    assert answer.status == 200, answer.document


@pytest.fixture(scope="module")
def scraped() -> Iterator[Prometheus]:
    """Scrape a product before and after some of its work, so that growth has two ends."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prometheus-")))
        dev = stack.enter_context(programs(folder)).dev()
        addresses = OPERATIONS.findall(dev.log.read_text())
        targets = {f"role-{number}": each for number, each in enumerate(addresses)}
        assert len(targets) == 5, "manager, api, activator, results, gateway"
        made = stack.enter_context(prometheus(folder, targets))
        eventually_blocking(lambda: made.ask("count(gpuruntime_build_info)"))
        work(dev)
        for _ in range(3):
            call(Caller(dev.address))
        eventually_blocking(lambda: made.ask("gpuruntime_serverless_dead_letters"))
        eventually_blocking(
            lambda: made.ask("rate(gpuruntime_serverless_invocations_ended_total[1m]) > 0")
        )
        yield made


def test_the_rules_are_evaluated_without_an_error(scraped: Prometheus) -> None:
    wanted = {alert.name: "ok" for alert in alerts()}
    eventually_blocking(scraped.rules, equals(wanted))


@pytest.mark.parametrize("text", sorted({query.expression for query in queries()}))
def test_a_query_of_the_dashboard_has_an_answer(scraped: Prometheus, text: str) -> None:
    """The growth of a new series is known at the next scrape only."""
    if is_silent(text):
        scraped.ask(text)
    else:
        eventually_blocking(lambda: scraped.ask(text), within_seconds=10)


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert.name)
def test_every_series_of_an_alert_exists(scraped: Prometheus, alert: Alert) -> None:
    for selector in parse(alert.expression).selectors:
        assert scraped.ask(str(selector)) or is_silent(str(selector)), selector


def test_no_alert_fires_on_a_healthy_product(scraped: Prometheus) -> None:
    assert scraped.ask('ALERTS{alertstate="firing"}') == []
