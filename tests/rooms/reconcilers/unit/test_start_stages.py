"""The stages of a Pod's start: their words, when a start is slow, and what progress wakes."""

from datetime import UTC, datetime, timedelta

import attrs
import pytest

from gpuruntime.models.kinds.secrets import SecretKey
from gpuruntime.models.kinds.templates import Port, SecretFile, Template
from gpuruntime.models.kinds.units import Access, GPUUnit, GPUUnitSpec
from gpuruntime.models.kubernetes.conditions import Condition
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.models.kubernetes.pods import (
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Running,
    Terminated,
    Waiting,
)
from gpuruntime.reconcilers.unit.start_stages import (
    is_slow,
    reached,
    seconds_until_slow,
    shows_progress,
    words_of,
)

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
CREATING = ContainerState(waiting=Waiting(reason="ContainerCreating"))
KEPT_WAITING = ContainerState(waiting=Waiting(reason="ContainerCreating", message="disk is slow"))
SERVING = GPUUnit(
    spec=GPUUnitSpec(specName="g1", template=Template(ports=(Port(name="http", port=8080),)))
)
UNPROBED = GPUUnit(
    spec=GPUUnitSpec(
        specName="g1", template=SERVING.spec.template, access=Access(readiness="none")
    )
)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def running(seconds: float) -> ContainerState:
    return ContainerState(running=Running(startedAt=at(seconds)))


def pod(
    *,
    scheduled: float | None = None,
    prepared: float | None = None,
    ready: float | None = None,
    gate: str = "",
    state: ContainerState = CREATING,
    init: ContainerState | None = None,
) -> Pod:
    """Return a Pod created at BEGIN; the moments are seconds after that."""
    moments = {"PodScheduled": scheduled, "PodReadyToStartContainers": prepared, "Ready": ready}
    conditions = [
        Condition(type=type_, status="True", lastTransitionTime=at(seconds))
        for type_, seconds in moments.items()
        if seconds is not None
    ]
    if gate:
        conditions.append(Condition(type="PodScheduled", status="False", reason=gate))
    main = ContainerStatus(name="runtime", image="model:1", ready=ready is not None, state=state)
    beside = [ContainerStatus(name="worker", image="worker:1", state=init)] if init else []
    return Pod(
        metadata=ObjectMeta(name="p", creationTimestamp=BEGIN),
        spec=PodSpec(nodeName="n1" if scheduled is not None else ""),
        status=PodStatus(
            conditions=tuple(conditions),
            containerStatuses=(main,) if scheduled is not None else (),
            initContainerStatuses=tuple(beside),
        ),
    )


def with_containers(pod: Pod, *statuses: ContainerStatus) -> Pod:
    return attrs.evolve(pod, status=attrs.evolve(pod.status, containerStatuses=statuses))


WORDS = {
    "no scheduler has seen it": (
        pod(),
        SERVING,
        "Pod p waits for the scheduler since 2026-03-01T12:00:00Z",
    ),
    "a gate holds it back": (
        pod(gate="SchedulingGated"),
        SERVING,
        "Pod p waits for the scheduler: SchedulingGated since 2026-03-01T12:00:00Z",
    ),
    "its volumes are mounted": (
        pod(scheduled=1),
        SERVING,
        "preparing Pod p on node n1 since 2026-03-01T12:00:01Z",
    ),
    "its image is pulled": (
        pod(scheduled=1, prepared=2),
        SERVING,
        "pulling image model:1 on node n1 since 2026-03-01T12:00:02Z",
    ),
    "its kubelet says more": (
        pod(scheduled=1, prepared=2, state=KEPT_WAITING),
        SERVING,
        "pulling image model:1 on node n1: disk is slow since 2026-03-01T12:00:02Z",
    ),
    "the image of its worker is pulled": (
        pod(scheduled=1, prepared=2, init=CREATING),
        SERVING,
        "pulling image worker:1 on node n1 since 2026-03-01T12:00:02Z",
    ),
    "it listens on another port": (
        pod(scheduled=1, prepared=2, state=running(9), init=running(3)),
        SERVING,
        "container runs, port 8080 does not take connections since 2026-03-01T12:00:09Z",
    ),
    "its container runs without a probe": (
        pod(scheduled=1, prepared=2, state=running(9)),
        UNPROBED,
        "container runtime runs and is not ready since 2026-03-01T12:00:09Z",
    ),
    "its init container has ended": (
        pod(
            scheduled=1,
            prepared=2,
            state=running(9),
            init=ContainerState(terminated=Terminated(exitCode=0)),
        ),
        SERVING,
        "container runs, port 8080 does not take connections since 2026-03-01T12:00:09Z",
    ),
    "its kubelet reports no container yet": (
        with_containers(pod(scheduled=1, prepared=2)),
        SERVING,
        "starting Pod p on node n1 since 2026-03-01T12:00:02Z",
    ),
    "a gate of its readiness is closed": (
        with_containers(
            pod(scheduled=1, prepared=2),
            ContainerStatus(name="runtime", ready=True, state=running(9)),
        ),
        SERVING,
        "every container is ready, and the Pod is not since 2026-03-01T12:00:09Z",
    ),
    "only the Deployment lags": (
        pod(scheduled=1, prepared=2, state=running(9), ready=10),
        SERVING,
        "the Pod is ready, and its Deployment does not count it yet since 2026-03-01T12:00:10Z",
    ),
}


@pytest.mark.parametrize(("shown", "unit", "words"), WORDS.values(), ids=WORDS)
def test_the_words_say_where_the_start_is(shown: Pod, unit: GPUUnit, words: str) -> None:
    assert words_of(reached(shown, unit)) == words


@pytest.mark.parametrize(
    ("shown", "now", "is_told", "left"),
    [
        (pod(scheduled=1), 4.9, False, 0.1),
        (pod(scheduled=1), 5.0, True, None),
        (pod(scheduled=1, prepared=3), 5.0, False, 2.0),
        (pod(scheduled=1, prepared=5), 5.0, True, None),
        (pod(scheduled=1), -60.0, False, 4.0),
    ],
    ids=[
        "not yet",
        "a stage lasts",
        "two stages last, but neither does",
        "an earlier stage lasted",
        "the clock of the cluster is ahead",
    ],
)
def test_a_start_is_slow_once_one_stage_has_lasted(
    shown: Pod, now: float, is_told: bool, left: float | None
) -> None:
    stages = reached(shown)
    assert is_slow(stages, at(now)) is is_told
    assert seconds_until_slow(stages, at(now)) == (None if left is None else pytest.approx(left))


@pytest.mark.parametrize(
    ("old", "new", "wakes"),
    [
        (None, pod(), False),
        (pod(), pod(scheduled=1), False),
        (pod(scheduled=1, prepared=2), pod(scheduled=1, prepared=2, state=running(4)), False),
        (pod(scheduled=1, prepared=2), pod(scheduled=1, prepared=2, state=running(6)), True),
        (pod(scheduled=1, prepared=2), pod(scheduled=1, prepared=2), False),
        (
            pod(scheduled=1, prepared=2),
            pod(scheduled=1, prepared=2, state=KEPT_WAITING),
            True,
        ),
        (None, pod(scheduled=9), True),
    ],
    ids=[
        "a new Pod",
        "a quick scheduler",
        "a quick pull",
        "a slow pull ends",
        "nothing changes",
        "the kubelet says more",
        "a Pod that is first seen late",
    ],
)
def test_only_progress_of_a_slow_start_wakes(old: Pod | None, new: Pod, wakes: bool) -> None:
    assert shows_progress(old, new) is wakes


def test_a_pod_that_is_prepared_for_long_names_the_secrets_that_it_needs_as_files() -> None:
    keys = (("tls", "key"), ("tls", "crt"), ("tls", "key"))
    files = tuple(
        SecretFile(path=f"/{index}", secret=SecretKey(name=name, key=key))
        for index, (name, key) in enumerate(keys)
    )
    unit = GPUUnit(spec=GPUUnitSpec(specName="g1", template=Template(files=files)))
    words = words_of(reached(pod(scheduled=1), unit))
    assert ", which needs the secrets tls/key, tls/crt since" in words
    assert "secrets" not in words_of(reached(pod(scheduled=1)))
    assert "secrets" not in words_of(reached(pod(scheduled=1, prepared=2), unit))
