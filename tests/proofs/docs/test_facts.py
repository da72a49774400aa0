"""All that pages name of the product exists: routes, metrics, labels, fields, messages and others.

docs/develop.md and docs/real-node.md are left out: they are about the code and the machine.
"""

from collections import Counter

import pytest

from tests.proofs.docs.existence import has
from tests.proofs.docs.facts import Fact, Kind, facts_of
from tests.proofs.docs.pages import Page, every_example, every_page

OF_CODE = {"docs/develop.md", "docs/real-node.md"}
PAGES = [each for each in (*every_page(), *every_example()) if each.name not in OF_CODE]
# The least number of different facts of each kind; a reader that misses a shape finds fewer.
LEAST = {
    Kind.METRIC: 90,
    Kind.LABEL: 35,
    Kind.VARIABLE: 10,
    Kind.ERROR: 20,
    Kind.CONDITION: 6,
    Kind.KUBECTL: 55,
    Kind.TOOL: 10,
    Kind.ROUTE: 150,
    Kind.FLAG: 20,
    Kind.MEMBER: 25,
    Kind.MESSAGE: 40,
    Kind.NAME: 1200,
}
# What stands on a page, and the fact that the product lacks; no fact if it has all.
PLANTED = {
    "metric": ("`gpuruntime_leader` is 1", "metric gpuruntime_leader"),
    "label of a metric": ("`gpuruntime_leading{job}`", "metric gpuruntime_leading{job}"),
    "label in a sentence": (
        "`gpuruntime_stock_units` by `phase`",
        "metric gpuruntime_stock_units{phase}",
    ),
    "count of a gauge": ("`gpuruntime_ready_count`", "metric gpuruntime_ready_count"),
    "matched label": ('`sum(gpuruntime_http_request_seconds_count{code=~"5.."})`', ""),
    "end of a metric": ("`gpuruntime_units`, `_pool`", "metric _pool"),
    "label of objects": ("set runtime.lokiwager.io/reach", "label runtime.lokiwager.io/reach"),
    "value of a label": (
        "`app.kubernetes.io/name=gpuruntime-apis`",
        "label app.kubernetes.io/name=gpuruntime-apis",
    ),
    "variable": ("export GPURUNTIME_HOST=x", "variable GPURUNTIME_HOST"),
    "error with another status": (
        "404 `operation_conflict`",
        "error with its status 404 `operation_conflict`",
    ),
    "condition": ("its condition `Serverless`", "condition Serverless"),
    "type of kubectl": (
        "`kubectl -n runtime-instance get gx`",
        "line of kubectl kubectl -n runtime-instance get gx",
    ),
    "namespace": ("`kubectl -n elsewhere get gs`", "line of kubectl kubectl -n elsewhere get gs"),
    "selector": (
        "```sh\nkubectl get pods -l k8s-app=gpuruntimes | less\n```",
        "line of kubectl kubectl get pods -l k8s-app=gpuruntimes",
    ),
    "field by jsonpath": (
        "`kubectl get gu a -o jsonpath={.status.phases}`",
        "line of kubectl kubectl get gu a -o jsonpath={.status.phases}",
    ),
    "session of nox": ("`nox -s clusters`", "line of another tool nox -s clusters"),
    "method of a route": ("`PATCH /api/v1/gpu-units`", "route PATCH /api/v1/gpu-units"),
    "route": ("```sh\ncurl $api/gpu-unit/a\n```", "route /gpu-unit/a"),
    "parameter of a route": ("`GET /api/v1/gpu-units?colour=red`",
                             "route GET /api/v1/gpu-units?colour=red"),
    "end of a route": ("`…/redrives`", "route …/redrives"),
    "route with a name": ("`curl …/gpu-units/NAME` and `…/logs`", ""),
    "flag": ("`--waits`", "flag --waits"),
    "value of a flag": ("`--log-level loud`", "flag --log-level loud"),
    "key": ("`leaderElection.deadline: 3s`", "member with its value leaderElection.deadline: 3s"),
    "value of a key": ("`kubernetes.mode: of`", "member with its value kubernetes.mode: of"),
    "value of a field": ("`refill: Sometimes`", "member with its value refill: Sometimes"),
    "message": ("`the log line of another program`", "message the log line of another program"),
    "message with a gap": ("`pulling image … on host …`", "message pulling image … on host …"),
    "code": ("`worker_fails`", "name worker_fails"),
    "reason": ("`DeploymentReadied`", "name DeploymentReadied"),
    "field": ("`status.serverless.reasons`", "name status.serverless.reasons"),
    "file": ("`examples/gpuunits.yaml`", "name examples/gpuunits.yaml"),
    "member of JSON": ('`{"accessor": {"on": true}}`', ""),
    "keyword of a call": ("`connect(sever=x)`", "name sever"),
    "value alone": ("`30s`, `16Gi`, `127.0.0.1:8080`, `[]`", ""),
}  # fmt: skip


def missing(page: Page, *kinds: Kind) -> list[str]:
    facts = {fact for fact in facts_of(page) if not kinds or fact.kind in kinds}
    return sorted(str(fact) for fact in facts if not has(fact))


@pytest.mark.parametrize("kind", Kind, ids=lambda kind: kind.replace(" ", "_"))
def test_what_the_pages_name_exists(kind: Kind) -> None:
    found = [each for page in PAGES for each in missing(page, kind)]
    assert found == [], "names of other programs belong in FOREIGN of existence.py"


def test_facts_of_every_kind_are_read() -> None:
    found = Counter(fact.kind for fact in {each for page in PAGES for each in facts_of(page)})
    assert {kind: number for kind, number in LEAST.items() if found[kind] < number} == {}
    assert LEAST.keys() == {*Kind}


@pytest.mark.parametrize(("text", "fault"), PLANTED.values(), ids=PLANTED)
def test_what_does_not_exist_is_found(text: str, fault: str) -> None:
    assert missing(Page("planted", text)) == ([f"planted: {fault}"] if fault else [])


def test_a_name_of_code_counts_on_the_pages_about_that_code() -> None:
    assert has(Fact("docs/client.md", Kind.NAME, "waiting.until_ended"))
    assert not has(Fact("docs/operate.md", Kind.NAME, "waiting.until_ended"))
