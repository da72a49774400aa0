"""A rollout keeps its bounds at every step, whatever the ReplicaSets do in between."""

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.embedded.kinds.workload_objects import Deployment, ReplicaSet
from gpuruntime.embedded.workloads.children import TEMPLATE_HASH, template_hash
from gpuruntime.embedded.workloads.deployment_plan import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    REVISION,
    REVISION_HISTORY,
    Observed,
    decide,
    max_surge,
    max_unavailable,
)
from tests.rooms.embedded.builders import TEMPLATE, deployment, replica_set

OTHER: dict[str, Any] = {**TEMPLATE, "metadata": {"labels": {"app": "web", "x": "1"}}}
HASH, OTHER_HASH = (template_hash(json.dumps(each).encode()) for each in (TEMPLATE, OTHER))


def set_of(hash_: str, replicas: int, revision: int = 1, **status: int) -> ReplicaSet:
    """Return a ReplicaSet whose Pods are all available, unless `status` says otherwise."""
    annotations = {
        REVISION: str(revision), DESIRED_REPLICAS: str(replicas), MAX_REPLICAS: str(replicas),
    }  # fmt: skip
    return replica_set(
        f"web-{hash_}",
        metadata={"labels": {TEMPLATE_HASH: hash_}, "annotations": annotations},
        replicas=replicas,
        status={"replicas": replicas, "availableReplicas": replicas, **status},
    )


def rolling(replicas: int, surge: int | str, unavailable: int | str) -> Deployment:
    update = {"maxSurge": surge, "maxUnavailable": unavailable}
    return deployment(
        replicas=replicas, strategy={"type": "RollingUpdate", "rollingUpdate": update}
    )


def sizes(observed: Observed) -> dict[str, int]:
    plan = decide(observed)
    return {each.replica_set.metadata.name: each.replicas for each in plan.amendments}


def test_the_hash_does_not_depend_on_the_order_of_members() -> None:
    assert template_hash(b'{"a": 1, "b": 2}') == template_hash(b'{"b":2,"a":1}')
    assert template_hash(b'{"a": 1}') != template_hash(b'{"a": 2}')


def test_a_new_deployment_creates_a_replica_set_that_carries_its_hash_everywhere() -> None:
    created: Any = decide(Observed(deployment=deployment(replicas=2))).creation

    assert created["metadata"]["name"] == f"web-{HASH}"
    labels = {"app": "web", TEMPLATE_HASH: HASH}
    assert created["metadata"]["labels"] == labels
    assert created["spec"]["selector"] == {"matchLabels": labels}
    assert created["spec"]["template"]["metadata"]["labels"] == labels
    assert created["spec"]["template"]["spec"] == TEMPLATE["spec"]
    assert created["spec"]["replicas"] == 2
    assert created["metadata"]["annotations"] == {
        DESIRED_REPLICAS: "2", MAX_REPLICAS: "3", REVISION: "1",
    }  # fmt: skip
    (owner,) = created["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Deployment", "uid-web", True)


def test_a_finished_rollout_changes_nothing() -> None:
    plan = decide(Observed(deployment=rolling(2, 0, 1), replica_sets=(set_of(HASH, 2),)))
    assert (plan.creation, plan.amendments, plan.removals) == (None, (), ())


def test_a_deployment_scaled_to_zero_scales_its_replica_set() -> None:
    observed = Observed(deployment=deployment(replicas=0), replica_sets=(set_of(HASH, 2),))
    assert sizes(observed) == {f"web-{HASH}": 0}


def test_recreate_starts_no_pod_while_an_old_one_exists() -> None:
    recreate = deployment(replicas=1, strategy={"type": "Recreate"})
    old = set_of(OTHER_HASH, 1)
    running = Observed(deployment=recreate, replica_sets=(old,), live_pods={old.metadata.uid: 1})
    assert decide(running).creation is None
    assert sizes(running) == {old.metadata.name: 0}

    ended = set_of(OTHER_HASH, 0)
    ending = attrs.evolve(running, replica_sets=(ended,))
    assert (decide(ending).creation, decide(ending).amendments) == (None, ())

    gone = attrs.evolve(ending, live_pods={})
    assert decide(gone).creation is not None


def test_the_next_template_gets_the_next_revision() -> None:
    observed = Observed(deployment=deployment(), replica_sets=(set_of(OTHER_HASH, 1, 4),))
    created: Any = decide(observed).creation
    assert created["metadata"]["annotations"][REVISION] == "5"


def test_a_template_that_returns_keeps_its_earlier_revisions() -> None:
    back = set_of(HASH, 0, 1)
    observed = Observed(deployment=rolling(1, 1, 0), replica_sets=(back, set_of(OTHER_HASH, 1, 2)))
    (amendment,) = (each for each in decide(observed).amendments if each.replica_set is back)
    assert (amendment.annotations[REVISION], amendment.annotations[REVISION_HISTORY]) == ("3", "1")


def test_annotations_of_the_deployment_reach_only_its_new_replica_set() -> None:
    noted = deployment(replicas=1)
    noted = attrs.evolve(noted, metadata=attrs.evolve(noted.metadata, annotations={"team": "a"}))
    new, old = set_of(HASH, 1, 2), set_of(OTHER_HASH, 0, 1)
    plan = decide(Observed(deployment=noted, replica_sets=(old, new)))
    (amendment,) = plan.amendments
    assert amendment.replica_set is new
    assert amendment.annotations["team"] == "a"
    assert not amendment.is_scaling


def test_a_paused_deployment_starts_no_rollout_and_still_scales() -> None:
    paused = deployment(replicas=3, paused=True)
    assert decide(Observed(deployment=paused)).creation is None
    old = set_of(OTHER_HASH, 1)
    observed = Observed(deployment=paused, replica_sets=(old,))
    assert (decide(observed).creation, sizes(observed)) == (None, {old.metadata.name: 3})


def test_a_paused_deployment_without_any_pod_scales_its_latest_template() -> None:
    observed = Observed(
        deployment=deployment(replicas=2, paused=True),
        replica_sets=(set_of(OTHER_HASH, 0), set_of(HASH, 0, 2)),
    )
    assert sizes(observed) == {f"web-{HASH}": 2}


def test_empty_replica_sets_beyond_the_history_limit_are_deleted_oldest_first() -> None:
    old = tuple(set_of(f"h{number}", 0, number) for number in (1, 2, 3))
    observed = Observed(
        deployment=deployment(replicas=1, revisionHistoryLimit=1, strategy={"type": "Recreate"}),
        replica_sets=(*old, set_of(HASH, 1, 4)),
    )
    removed = [each.metadata.name for each in decide(observed).removals]
    assert removed == ["web-h1", "web-h2"]


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [(4, "25%", "25%", (1, 1)), (1, "25%", "25%", (1, 0)), (10, "30%", "25%", (3, 2)),
     (3, 0, 0, (0, 1)), (2, 0, "25%", (0, 1)), (0, "25%", "25%", (0, 0)), (2, 1, 5, (1, 2))],
    ids=["whole numbers", "one replica", "rounded", "both zero", "both round to zero",
         "no replicas", "more than replicas"],
)  # fmt: skip
def test_surge_is_rounded_up_and_unavailable_down(
    replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]
) -> None:
    strategy = rolling(replicas, surge, unavailable)
    assert (max_surge(strategy), max_unavailable(strategy)) == expected


@given(
    replicas=st.integers(1, 6),
    before=st.integers(0, 6),
    surge=st.sampled_from([0, 1, 3, "25%", "100%"]),
    unavailable=st.sampled_from([0, 1, "25%", "50%"]),
    becoming_ready=st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_a_rolling_update_stays_within_its_bounds_and_completes(
    replicas: int,
    before: int,
    surge: int | str,
    unavailable: int | str,
    becoming_ready: list[bool],
) -> None:
    wanted = rolling(replicas, surge, unavailable)
    sets = {OTHER_HASH: before, HASH: 0}
    available = {OTHER_HASH: before, HASH: 0}
    exists = False
    least = min(before, replicas - max_unavailable(wanted))
    most = max(before, replicas + max_surge(wanted))
    for step in range(60):
        shown = [set_of(OTHER_HASH, sets[OTHER_HASH], 1, availableReplicas=available[OTHER_HASH])]
        if exists:
            shown.append(set_of(HASH, sets[HASH], 2, availableReplicas=available[HASH]))
        plan = decide(Observed(deployment=wanted, replica_sets=tuple(shown)))
        if plan.creation is not None:
            exists = True
            sets[HASH] = plan.creation["spec"]["replicas"]  # type: ignore[index,call-overload,assignment]  # a body
        for each in plan.amendments:
            sets[each.replica_set.metadata.labels[TEMPLATE_HASH]] = each.replicas
        available[OTHER_HASH] = min(available[OTHER_HASH], sets[OTHER_HASH])
        is_becoming_ready = becoming_ready[step % 8] or step > 30
        available[HASH] = sets[HASH] if is_becoming_ready else min(available[HASH], sets[HASH])
        assert sum(available.values()) >= least
        assert sum(sets.values()) <= most
    assert sets == {OTHER_HASH: 0, HASH: replicas}
