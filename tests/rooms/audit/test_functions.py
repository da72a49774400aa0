"""The rules of functions, checked against every way to break them and correct operation."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from gpuruntime.audit.audit import breaches, suspicions
from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.kubernetes.pods import Pod
from gpuruntime.models.kubernetes.workloads import Deployment
from tests.rooms.audit.corruptions import Corruption, both, cases, demand_breach, rules_broken
from tests.rooms.audit.functions import (
    DRAIN_SECONDS,
    FIRST,
    FUNCTION,
    SECOND,
    TEMPLATE,
    deployment,
    draining,
    failing,
    joined,
    older,
    serving,
    template,
    with_pod_spec,
    worker,
)
from tests.rooms.audit.values import (
    LATER,
    added,
    aged,
    change,
    child_metadata,
    claim_marks,
    policy,
    ready,
    service,
    stock_unit,
    with_labels,
    with_metadata,
    with_spec,
    with_status,
    without,
)


def unit(name: str, how: Callable[[GPUUnit], Any]) -> Corruption:
    return lambda snapshot: change(snapshot, "units", name, how)


def declaring(**members: Any) -> Corruption:
    """Declare other limits than those that the workers were created for."""
    return unit(
        TEMPLATE, lambda held: with_spec(held, serverless=attrs.evolve(FUNCTION, **members))
    )


def having(kind: str, value: object) -> Corruption:
    return lambda snapshot: added(snapshot, kind, value)


def lacking(*workers: str) -> Corruption:
    """Remove the units and their children."""

    def apply(snapshot: Snapshot) -> Snapshot:
        for name in workers:
            snapshot = without(snapshot, "units", name)
            for kind in ("deployments", "policies", "pods"):
                snapshot = without(snapshot, kind, f"unit-{name}")
        return snapshot

    return apply


def more(*numbers: int) -> Corruption:
    return both(*(lambda snapshot, n=n: joined(snapshot, worker(n)) for n in numbers))


def ending(name: str) -> Corruption:
    return unit(name, lambda held: with_metadata(held, deletionTimestamp=LATER))


def claimed(name: str) -> Corruption:
    return having("stock", stock_unit(5, **claim_marks(name, f"make {name}")))


def reading(**members: Any) -> Corruption:
    """Let the user's container read its worker's Secret."""

    def how(pod: Any) -> None:
        container = pod["containers"][0]
        for name, more in members.items():
            container[name] = [*container.get(name, ()), *more]

    return with_pod_spec(FIRST, how)


def projected(pod: Any) -> None:
    source = {"secret": {"name": f"unit-{FIRST}"}}
    pod["volumes"].append({"name": "both", "projected": {"sources": [source]}})
    pod["containers"][0]["volumeMounts"].append({"name": "both", "mountPath": "/both"})


def without_sidecar(pod: Any) -> None:
    pod.pop("initContainers")


def ended_at_once(pod: Any) -> None:
    """Make the sidecar an init container that ends before the user's container starts."""
    pod["initContainers"][0].pop("restartPolicy")


def blind(pod: Any) -> None:
    pod["initContainers"][0]["volumeMounts"] = []


def snooping(pod: Any) -> None:
    """Return a unit that is not a worker."""
    reference = {"secretKeyRef": {"name": f"unit-{FIRST}", "key": "worker.yaml"}}
    pod["containers"] = [{"name": "runtime", "env": [{"name": "A", "valueFrom": reference}]}]


def outdating(name: str) -> Corruption:
    return unit(name, lambda held: with_spec(held, image="v0"))


RENAMED: dict[str, str | None] = {labels.UNIT: "reverb"}
RESPECCED: dict[str, str | None] = {labels.SPEC: "g2"}
CHILD = child_metadata(TEMPLATE)
RIVAL = with_spec(template("rival"), serverless=attrs.evolve(FUNCTION, minAvailableCount=0))
LOWERED = declaring(maxWorkers=1, minAvailableCount=1)
REFUSED: dict[str, Any] = {
    "phase": "Failed",
    "conditions": ready("ServerlessConfigInvalid"),
}
# Another, older unit that declares the function.
OVERTAKEN = both(
    having("units", older(RIVAL)), unit(TEMPLATE, lambda held: with_status(held, **REFUSED))
)

CORRUPTIONS: dict[str, list[Corruption]] = {
    "template-runs-nothing": [
        both(
            having("deployments", Deployment(metadata=CHILD)),
            having("policies", policy(TEMPLATE)),
        ),
        having("services", service(TEMPLATE)),
        having("policies", policy(TEMPLATE)),
        both(having("pods", Pod(metadata=CHILD)), having("policies", policy(TEMPLATE))),
        claimed(TEMPLATE),
    ],
    "function-owner": [
        OVERTAKEN,
        both(having("units", RIVAL), lambda held: joined(held, worker(1, of="rival"))),
    ],
    "worker-limit": [
        LOWERED,
        more(3, 4),
        both(more(3, 4), lambda s: draining(s, FIRST)),
        both(more(3, 4, 5), outdating(FIRST)),
        both(more(3, 4), outdating(FIRST), declaring(update="Recreate")),
    ],
    "worker-minimum": [
        lacking(SECOND),
        lacking(FIRST, SECOND),
        declaring(minAvailableCount=3),
        lambda snapshot: draining(snapshot, FIRST),
        ending(FIRST),
    ],
    "worker-template": [
        lambda snapshot: without(snapshot, "units", TEMPLATE),
        unit(TEMPLATE, lambda held: with_metadata(held, uid="uid-another")),
        unit(TEMPLATE, lambda held: with_metadata(with_labels(held, **RENAMED), name="reverb")),
        unit(
            TEMPLATE,
            lambda held: attrs.evolve(with_spec(held, serverless=None), status=worker(1).status),
        ),
        unit(FIRST, lambda held: with_labels(with_spec(held, specName="g2"), **RESPECCED)),
        unit(TEMPLATE, lambda held: with_spec(held, gpu=2)),
        unit(TEMPLATE, lambda held: with_spec(held, memory="8Gi")),
        unit(TEMPLATE, lambda held: with_spec(held, gpuProduct="H100", cpu="2")),
    ],
    "worker-sidecar": [
        with_pod_spec(FIRST, without_sidecar),
        with_pod_spec(FIRST, ended_at_once),
        with_pod_spec(FIRST, blind),
        with_pod_spec(FIRST, projected),
        reading(volumeMounts=[{"name": "worker-settings", "mountPath": "/stolen"}]),
        reading(envFrom=[{"secretRef": {"name": f"unit-{FIRST}"}}]),
        reading(envFrom=[{"secretRef": {"name": f"unit-{SECOND}"}}]),
        with_pod_spec("demo", snooping),
    ],
    "worker-drains": [
        both(more(3), lambda snapshot: draining(snapshot, FIRST)),
    ],
}
# Faults that cause other faults.
FOLLOWS = {
    ("template-runs-nothing", "claim-settled"),
    ("template-runs-nothing", "pool-sum"),
    ("worker-template", "worker-minimum"),
    ("worker-limit", "worker-drains"),
    ("worker-minimum", "worker-drains"),
}


def test_a_function_with_its_workers_is_sound() -> None:
    assert suspicions(serving()) == []


@pytest.mark.parametrize(("rule", "corrupt"), cases(CORRUPTIONS))
def test_a_lasting_corruption_is_a_breach_of_its_rule(rule: str, corrupt: Corruption) -> None:
    demand_breach(rule, corrupt(serving()), FOLLOWS)


LASTING: dict[str, tuple[Corruption, str, int]] = {
    "a unit that comes to declare a function": (
        CORRUPTIONS["template-runs-nothing"][0],
        "template-runs-nothing",
        180,
    ),
    "workers of a template that an older one has overtaken": (
        OVERTAKEN,
        "function-owner",
        DRAIN_SECONDS,
    ),
    "a limit that was lowered": (LOWERED, "worker-limit", DRAIN_SECONDS),
    "a minimum that was raised": (declaring(minAvailableCount=3), "worker-minimum", 180),
    "workers whose template is gone": (
        CORRUPTIONS["worker-template"][0],
        "worker-template",
        120,
    ),
    "workers of a unit that declares no function any more": (
        CORRUPTIONS["worker-template"][3],
        "worker-template",
        DRAIN_SECONDS,
    ),
    "a drain": (CORRUPTIONS["worker-drains"][0], "worker-drains", DRAIN_SECONDS),
    "a drain of a function with longer attempts": (
        both(CORRUPTIONS["worker-drains"][0], declaring(timeoutSeconds=600)),
        "worker-drains",
        1_320,
    ),
}


@pytest.mark.parametrize("name", LASTING)
def test_a_temporary_finding_is_a_breach_only_if_it_lasts(name: str) -> None:
    corrupt, rule, seconds = LASTING[name]
    snapshot = corrupt(serving())
    assert rules_broken(snapshot) == set()
    assert rule not in rules_broken(aged(snapshot, seconds - 1))
    assert rule in rules_broken(aged(snapshot, seconds))


@pytest.mark.parametrize(
    ("corrupt", "rule", "step"),
    [
        (lacking(FIRST, SECOND), "worker-minimum", lambda held: joined(held, worker(1))),
        (LOWERED, "worker-limit", declaring(maxWorkers=1, minAvailableCount=0, timeoutSeconds=9)),
        (
            CORRUPTIONS["worker-drains"][0],
            "worker-drains",
            declaring(timeoutSeconds=9),
        ),
    ],
)
def test_progress_starts_the_allowed_time_again(
    corrupt: Corruption, rule: str, step: Corruption
) -> None:
    snapshot = aged(corrupt(serving()), 3_600)
    assert rule in rules_broken(snapshot)
    assert rule not in rules_broken(step(snapshot))
    assert rule in {each.rule for each in suspicions(step(snapshot))}


def unstocked(snapshot: Snapshot) -> Snapshot:
    return attrs.evolve(
        snapshot,
        stock=tuple(
            with_status(each, phase="Progressing", conditions=ready("DeploymentProgressing"))
            for each in snapshot.stock
        ),
    )


# Allowed for any length of time.
ALLOWED: dict[str, tuple[Corruption, str]] = {
    "a minimum without stock": (both(lacking(SECOND), unstocked), "worker-minimum"),
    "a minimum while the leaving have the seats": (
        both(
            declaring(maxWorkers=2),
            lambda snapshot: draining(snapshot, FIRST),
        ),
        "worker-minimum",
    ),
    "a minimum while a worker fails": (
        both(lacking(SECOND), lambda snapshot: failing(snapshot, FIRST)),
        "worker-minimum",
    ),
    "a minimum of a suspended function": (
        both(
            lacking(FIRST, SECOND),
            unit(
                TEMPLATE,
                lambda held: with_status(
                    with_spec(held, suspended=True),
                    phase="Suspended",
                    conditions=ready("ScaledToZero"),
                ),
            ),
        ),
        "worker-minimum",
    ),
    "a minimum that the manager has not read yet": (
        both(lacking(SECOND), unit(TEMPLATE, lambda held: with_metadata(held, generation=2))),
        "worker-minimum",
    ),
    "a minimum of a function that another unit owns": (
        both(OVERTAKEN, lacking(FIRST, SECOND)),
        "worker-minimum",
    ),
    "a younger template without workers": (having("units", RIVAL), "function-owner"),
    "as many workers as may be": (more(3), "worker-limit"),
    "one more beside an outdated worker": (both(more(3, 4), outdating(FIRST)), "worker-limit"),
    "an ending worker whose template is gone": (
        both(lambda snapshot: without(snapshot, "units", TEMPLATE), ending(FIRST), ending(SECOND)),
        "worker-template",
    ),
    "a template that states its envelope in other words": (
        unit(TEMPLATE, lambda held: with_spec(held, cpu="1", memory="16384Mi", gpu=1)),
        "worker-template",
    ),
    "a worker of stock of one product, whose template names none": (
        unit(FIRST, lambda held: with_spec(held, gpuProduct="H100")),
        "worker-template",
    ),
    "a drained worker that is ending": (
        both(lambda snapshot: draining(snapshot, FIRST), ending(FIRST)),
        "worker-drains",
    ),
    "the policy of Pods that are yet to end": (
        both(
            having("policies", policy(TEMPLATE)),
            having("pods", Pod(metadata=attrs.evolve(CHILD, deletionTimestamp=LATER))),
        ),
        "template-runs-nothing",
    ),
    "what a unit runs that declares its function badly": (
        both(
            declaring(minAvailableCount=9),
            having("deployments", Deployment(metadata=CHILD)),
            having("pods", Pod(metadata=CHILD)),
        ),
        "template-runs-nothing",
    ),
    "children of a deleted template": (
        both(ending(TEMPLATE), having("deployments", Deployment(metadata=CHILD))),
        "template-runs-nothing",
    ),
    "stock that is consumed of a unit that has served before": (
        both(
            claimed(TEMPLATE),
            unit(TEMPLATE, lambda held: with_status(held, timeline=worker(1).status.timeline)),
        ),
        "template-runs-nothing",
    ),
    "a suspended worker": (
        lambda snapshot: change(
            snapshot,
            "deployments",
            f"unit-{FIRST}",
            lambda _: deployment(with_spec(worker(1), suspended=True)),
        ),
        "worker-sidecar",
    ),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_correct_operation_shows_no_breach(name: str) -> None:
    corrupt, rule = ALLOWED[name]
    assert rule not in rules_broken(aged(corrupt(serving()), 1e6))


def test_the_remains_of_a_worker_are_no_breach_while_the_next_worker_has_its_name() -> None:
    renewed = unit(FIRST, lambda held: with_metadata(held, uid="uid-next"))(serving())
    assert breaches(renewed) == []
    assert rules_broken(aged(renewed, 59)) == set()


def test_a_breach_names_the_function_the_template_and_what_is_missing() -> None:
    (breach,) = breaches(aged(lacking(SECOND)(serving()), 180))
    assert [each.name for each in breach.objects] == [TEMPLATE]
    assert "has 1 workers of 2 that must be available" in breach.message
    assert "stock of g1.1 is free" in breach.message
    assert "activator" in breach.remedy
