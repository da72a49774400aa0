"""The status of a simulated Pod at a given moment, as a kubelet reports it."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

import attrs

from gpuruntime.embedded.kinds.pod_objects import (
    Address,
    Container,
    ContainerState,
    ContainerStatus,
    Pod,
    PodStatus,
    Terminated,
)
from gpuruntime.embedded.nodes.container_timeline import (
    NEVER,
    ContainerStart,
    End,
    Run,
    Stage,
    Wait,
    reached,
)
from gpuruntime.embedded.nodes.failures import Pace
from gpuruntime.kube.events import Note
from gpuruntime.models.kubernetes.conditions import Condition, with_condition
from gpuruntime.models.kubernetes.pods import Running, Waiting

SIMULATED: Final = "simulated: the containers of this Pod run by the clock, without any process"
# SIGTERM, as it ends a process that does not handle it.
TERMINATED: Final = 143

# Timers may fire early by the clock's resolution, so a moment this near counts as reached.
TOLERANCE_SECONDS: Final = 1e-4


@attrs.frozen(kw_only=True, slots=True)
class Sandbox:
    """When the kubelet took the Pod, by wall clock, and the Pod's addresses."""

    began_at: datetime
    host_ip: str
    pod_ip: str
    pace: Pace = Pace()


@attrs.frozen(kw_only=True, slots=True)
class SimulatedStatus:
    """The status, all notes due so far with their offsets, and the offset of the next change."""

    status: PodStatus
    notes: tuple[tuple[float, Container, Note], ...]
    next_at: float


def simulated_status(
    pod: Pod, sandbox: Sandbox, offset: float, *, now: datetime, why: str = ""
) -> SimulatedStatus:
    """Return the status at an offset, in seconds since the kubelet took the Pod.

    `why` are words about why the Pod is simulated, for its message.
    """
    due = offset + TOLERANCE_SECONDS
    starts = list(_starts(pod, sandbox.pace))
    timelines = [reached(start, due) for start in starts]
    shown = [
        _shown(start, passed[-1], sandbox)
        for start, (passed, _) in zip(starts, timelines, strict=True)
    ]
    inits = tuple(each for each, start in zip(shown, starts, strict=True) if start.is_init)
    mains = tuple(each for each, start in zip(shown, starts, strict=True) if not start.is_init)
    notes = [
        (stage.at, start.container, note)
        for start, (passed, _) in zip(starts, timelines, strict=True)
        for stage in passed
        for note in stage.notes
    ]
    has_started = due >= sandbox.pace.start_seconds
    status = pod_status(
        pod,
        sandbox,
        inits,
        mains,
        has_sandbox=has_started,
        now=now,
        words=f"{SIMULATED}: {why}" if why else SIMULATED,
    )
    next_at = min([NEVER, *(next_at for _, next_at in timelines)])
    if not has_started:
        next_at = min(next_at, sandbox.pace.start_seconds)
    return SimulatedStatus(status=status, notes=tuple(sorted(notes, key=_moment)), next_at=next_at)


def ended(pod: Pod, *, now: datetime) -> PodStatus:
    """Return the status of a stopped Pod: every container terminated, none ready."""
    inits = tuple(_stopped(each, now) for each in pod.status.initContainerStatuses)
    mains = tuple(_stopped(each, now) for each in pod.status.containerStatuses)
    phase = _final_phase(mains)
    status = attrs.evolve(
        pod.status, initContainerStatuses=inits, containerStatuses=mains, phase=phase
    )
    return _with_conditions(pod, status, has_sandbox=False, now=now)


def _starts(pod: Pod, pace: Pace) -> Iterator[ContainerStart]:
    """Yield the containers with their starts: init containers one by one, then all main ones."""
    begins_at = pace.start_seconds
    for container in pod.spec.initContainers:
        start = ContainerStart(
            pod=pod, container=container, begins_at=begins_at, pace=pace, is_init=True
        )
        yield start
        begins_at = max(begins_at, start.ends_at)
    for container in pod.spec.containers:
        yield ContainerStart(pod=pod, container=container, begins_at=begins_at, pace=pace)


def _moment(note: tuple[float, Container, Note]) -> float:
    return note[0]


def _shown(start: ContainerStart, stage: Stage, sandbox: Sandbox) -> ContainerStatus:
    is_running = isinstance(stage.state, Run)
    has_begun = is_running or isinstance(stage.state, End) or stage.restarts > 0
    return ContainerStatus(
        name=start.container.name,
        image=start.container.image,
        state=_state(start, stage.state, stage.restarts, sandbox),
        lastState=_state(start, stage.last_end, stage.restarts - 1, sandbox),
        ready=_is_ready(start, stage.state),
        restartCount=stage.restarts,
        containerID=_container_id(start, stage.restarts) if has_begun else "",
        started=is_running,
    )


def _is_ready(start: ContainerStart, state: Wait | Run | End) -> bool:
    """Return whether it is ready: an init container after success, a sidecar while it runs."""
    match state:
        case Run():
            return state.is_ready and (not start.is_init or start.policy == "Always")
        case End():
            return start.is_init and not state.exit_code
        case Wait():
            return False


def _state(
    start: ContainerStart, state: Wait | Run | End | None, run: int, sandbox: Sandbox
) -> ContainerState:
    match state:
        case None:
            return ContainerState()
        case Wait():
            return ContainerState(waiting=Waiting(reason=state.reason, message=state.message))
        case Run():
            return ContainerState(running=Running(startedAt=_at(sandbox, state.since)))
        case End():
            return ContainerState(
                terminated=Terminated(
                    exitCode=state.exit_code,
                    reason="Error" if state.exit_code else "Completed",
                    message=state.message,
                    startedAt=_at(sandbox, state.since),
                    finishedAt=_at(sandbox, state.at),
                    containerID=_container_id(start, run),
                )
            )


def _at(sandbox: Sandbox, offset: float) -> datetime:
    return (sandbox.began_at + timedelta(seconds=offset)).replace(microsecond=0)


def _container_id(start: ContainerStart, run: int) -> str:
    return f"simulated://{start.pod.metadata.uid}/{start.container.name}/{run}"


def pod_status(
    pod: Pod,
    sandbox: Sandbox,
    inits: tuple[ContainerStatus, ...],
    mains: tuple[ContainerStatus, ...],
    *,
    has_sandbox: bool,
    now: datetime,
    words: str,
) -> PodStatus:
    """Return the Pod's status; `words` becomes its message."""
    pod_ip = sandbox.pod_ip if has_sandbox else ""
    status = PodStatus(
        phase=_phase(pod, inits, mains),
        message=words,
        conditions=pod.status.conditions,
        nominatedNodeName=pod.status.nominatedNodeName,
        hostIP=sandbox.host_ip,
        hostIPs=(Address(ip=sandbox.host_ip),),
        podIP=pod_ip,
        podIPs=(Address(ip=pod_ip),) if pod_ip else (),
        startTime=sandbox.began_at.replace(microsecond=0),
        initContainerStatuses=inits,
        containerStatuses=mains,
        resourceClaimStatuses=pod.status.resourceClaimStatuses,
    )
    return _with_conditions(pod, status, has_sandbox=has_sandbox, now=now)


def _phase(
    pod: Pod, inits: tuple[ContainerStatus, ...], mains: tuple[ContainerStatus, ...]
) -> str:
    if any(_has_failed(each) for each in inits) and pod.spec.restartPolicy == "Never":
        return "Failed"
    if any(each.state.waiting and not each.lastState.terminated for each in mains):
        return "Pending"
    if pod.spec.restartPolicy == "Always" or any(each.state.running for each in mains):
        return "Running"
    if all(each.state.terminated for each in mains):
        phase = _final_phase(mains)
        return phase if phase == "Succeeded" or pod.spec.restartPolicy == "Never" else "Running"
    return "Running"


def _final_phase(mains: Iterable[ContainerStatus]) -> str:
    return "Failed" if any(_has_failed(each) for each in mains) else "Succeeded"


def _has_failed(container: ContainerStatus) -> bool:
    terminated = container.state.terminated
    return terminated is not None and terminated.exitCode != 0


def _with_conditions(
    pod: Pod, status: PodStatus, *, has_sandbox: bool, now: datetime
) -> PodStatus:
    sidecars = {each.name for each in pod.spec.initContainers if each.restartPolicy == "Always"}
    conditions = status.conditions
    for condition in (
        _condition("PodReadyToStartContainers", is_true=has_sandbox),
        _initialized(status, sidecars),
        *_readiness(status, sidecars),
        _condition("PodScheduled", is_true=True),
    ):
        conditions = with_condition(conditions, condition, now=now)
    return attrs.evolve(status, conditions=conditions)


def _condition(type_: str, *, is_true: bool, reason: str = "", message: str = "") -> Condition:
    status = "True" if is_true else "False"
    return Condition(type=type_, status=status, reason=reason, message=message)


def _initialized(status: PodStatus, sidecars: set[str]) -> Condition:
    if status.phase == "Succeeded":
        return _condition("Initialized", is_true=True, reason="PodCompleted")
    incomplete = [
        each.name
        for each in status.initContainerStatuses
        if not (each.started if each.name in sidecars else each.ready)
    ]
    if not incomplete:
        return _condition("Initialized", is_true=True)
    message = f"containers with incomplete status: [{' '.join(incomplete)}]"
    reason = "ContainersNotInitialized"
    return _condition("Initialized", is_true=False, reason=reason, message=message)


def _readiness(status: PodStatus, sidecars: set[str]) -> Iterator[Condition]:
    reasons = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
    reason, message = reasons.get(status.phase, ""), ""
    lasting = [each for each in status.initContainerStatuses if each.name in sidecars]
    unready = [each.name for each in (*lasting, *status.containerStatuses) if not each.ready]
    if not reason and unready:
        reason = "ContainersNotReady"
        message = f"containers with unready status: [{' '.join(unready)}]"
    for type_ in ("Ready", "ContainersReady"):
        yield _condition(type_, is_true=not reason, reason=reason, message=message)


def _stopped(container: ContainerStatus, now: datetime) -> ContainerStatus:
    """Return the container as terminated; if it never ran, without a start time."""
    if container.state.terminated:
        return attrs.evolve(container, ready=False, started=False)
    running = container.state.running
    terminated = Terminated(
        exitCode=TERMINATED,
        reason="Error",
        startedAt=running.startedAt if running else None,
        finishedAt=now,
        containerID=container.containerID,
    )
    state = ContainerState(terminated=terminated)
    return attrs.evolve(container, state=state, ready=False, started=False)
