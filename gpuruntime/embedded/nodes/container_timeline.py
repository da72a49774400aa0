"""The timeline of a simulated container: stages from waiting to running to its end.

Offsets are seconds since the kubelet took the Pod. A timeline depends only on the Pod and the
pace, so the stage at any moment can be computed without the earlier ones.
"""

from collections.abc import Iterator
from itertools import count
from typing import Final

import attrs

from gpuruntime.embedded.kinds.pod_objects import Container, Pod
from gpuruntime.embedded.nodes.failures import Failure, Fault, Pace, failure_of, run_seconds
from gpuruntime.kube.events import Note

FIRST_BACKOFF_SECONDS: Final = 10
LONGEST_BACKOFF_SECONDS: Final = 300
NEVER: Final = float("inf")


@attrs.frozen(slots=True)
class Wait:
    reason: str
    message: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Run:
    since: float
    is_ready: bool


@attrs.frozen(kw_only=True, slots=True)
class End:
    since: float
    at: float
    exit_code: int = 0
    message: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Stage:
    """A stage from this offset on; `last_end` is the end of the previous run."""

    at: float
    state: Wait | Run | End
    restarts: int = 0
    last_end: End | None = None
    notes: tuple[Note, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class ContainerStart:
    """A container of a Pod, and the offset at which it starts."""

    pod: Pod
    container: Container
    begins_at: float
    pace: Pace
    is_init: bool = False

    @property
    def failure(self) -> Failure | None:
        return failure_of(self.pod, self.container)

    @property
    def policy(self) -> str:
        return policy_of(self.pod, self.container, is_init=self.is_init)

    @property
    def ends_at(self) -> float:
        """Return when the next init container may start, or NEVER."""
        failure = self.failure
        if failure and (failure.fault is not Fault.CRASH or failure.exit_code):
            return NEVER
        if self.container.restartPolicy == "Always":
            return self.begins_at
        return self.begins_at + self.pace.init_seconds


def policy_of(pod: Pod, container: Container, *, is_init: bool) -> str:
    """Return the restart policy; an init container, unless a sidecar, only has to succeed once."""
    policy = container.restartPolicy or pod.spec.restartPolicy
    ends = is_init and not container.restartPolicy
    return "OnFailure" if ends and policy == "Always" else policy


def is_restarted(policy: str, exit_code: int) -> bool:
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def stages(start: ContainerStart) -> Iterator[Stage]:
    """Yield the stages; the first is at zero, and a container that keeps failing has no last."""
    is_alone = not start.pod.spec.initContainers
    yield Stage(at=0.0, state=Wait("ContainerCreating" if is_alone else "PodInitializing"))
    if start.begins_at == NEVER:
        return
    failure = start.failure
    match failure:
        case Failure(fault=Fault.IMAGE_PULL):
            yield from _failing_pull(start, failure)
        case Failure(fault=Fault.CONFIG_ERROR):
            yield _misconfigured(start, failure)
        case _:
            yield from _running(start, failure)


def reached(start: ContainerStart, offset: float) -> tuple[list[Stage], float]:
    """Return all stages up to the offset, the current one last, and the offset of the next one."""
    passed: list[Stage] = []
    for stage in stages(start):
        if stage.at > offset:
            return passed, stage.at
        passed.append(stage)
    return passed, NEVER


def _failing_pull(start: ContainerStart, failure: Failure) -> Iterator[Stage]:
    image = start.container.image
    not_found = f'failed to resolve reference "{image}": {image}: not found'
    fault = failure.words or (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{image}": {not_found}'
    )
    refused = (
        Note("Pulling", f'Pulling image "{image}"'),
        Note("Failed", f'Failed to pull image "{image}": {fault}', is_warning=True),
        Note("Failed", "Error: ErrImagePull", is_warning=True),
    )
    delayed = (
        Note("BackOff", f'Back-off pulling image "{image}"'),
        Note("Failed", "Error: ImagePullBackOff", is_warning=True),
    )
    back_off = f'Back-off pulling image "{image}": ErrImagePull: {fault}'
    at = start.begins_at
    for delay in backoffs():
        yield Stage(at=at, state=Wait("ErrImagePull", fault), notes=refused)
        settled_at = at + start.pace.settle_seconds
        yield Stage(at=settled_at, state=Wait("ImagePullBackOff", back_off), notes=delayed)
        at += delay


def _misconfigured(start: ContainerStart, failure: Failure) -> Stage:
    fault = failure.words or 'configmap "missing" not found'
    return Stage(
        at=start.begins_at,
        state=Wait("CreateContainerConfigError", fault),
        notes=(Note("Failed", f"Error: {fault}", is_warning=True),),
    )


def _running(start: ContainerStart, failure: Failure | None) -> Iterator[Stage]:
    at, last_end, delays = start.begins_at, None, backoffs()
    for restarts in count():
        yield from _run(start, failure, at, restarts, last_end)
        end = _end(start, failure, at)
        if end is None:
            return
        yield Stage(at=end.at, state=end, restarts=restarts, last_end=last_end)
        if not is_restarted(start.policy, end.exit_code):
            return
        last_end = end
        settled_at = end.at + start.pace.settle_seconds
        if not restarts:  # the first restart has no back-off
            at = settled_at
            continue
        delay = next(delays)
        yield _backing_off(start, settled_at, delay, restarts, end)
        at = max(settled_at, end.at + delay)


def _run(
    start: ContainerStart, failure: Failure | None, at: float, restarts: int, last_end: End | None
) -> Iterator[Stage]:
    """Yield the stages of one run until the container is ready."""
    name, image = start.container.name, start.container.image
    is_never_ready = failure is not None and failure.fault is Fault.NEVER_READY
    is_probed = start.container.readinessProbe is not None
    notes = [
        Note("Pulled", f'Container image "{image}" already present on machine'),
        Note("Created", f"Created container: {name}"),
        Note("Started", f"Started container {name}"),
    ]
    if is_never_ready:
        words = (failure.words if failure else "") or "simulated"
        notes.append(Note("Unhealthy", f"Readiness probe failed: {words}", is_warning=True))
    running = Run(since=at, is_ready=not is_never_ready and not is_probed)
    stage = Stage(at=at, state=running, restarts=restarts, last_end=last_end, notes=tuple(notes))
    yield stage
    if is_probed and not is_never_ready:
        ready = attrs.evolve(running, is_ready=True)
        yield attrs.evolve(stage, at=at + start.pace.ready_seconds, state=ready, notes=())


def _end(start: ContainerStart, failure: Failure | None, began_at: float) -> End | None:
    """Return the end of a run, or None if the container runs until its Pod is deleted."""
    crash = failure if failure and failure.fault is Fault.CRASH else None
    if crash is None and start.policy == "Always":
        return None
    seconds = start.pace.init_seconds if start.is_init else run_seconds(start.pod, start.pace)
    ready_at = start.pace.ready_seconds if start.container.readinessProbe else 0.0
    return End(
        since=began_at,
        at=began_at + max(seconds, ready_at),
        exit_code=crash.exit_code if crash else 0,
        message=crash.words if crash else "",
    )


def _backing_off(start: ContainerStart, at: float, delay: int, restarts: int, end: End) -> Stage:
    name, pod = start.container.name, _full_name(start.pod)
    message = back_off_words(start.pod, name, delay)
    event = f"Back-off restarting failed container {name} in pod {pod}"
    return Stage(
        at=at,
        state=Wait("CrashLoopBackOff", message),
        restarts=restarts,
        last_end=end,
        notes=(Note("BackOff", event, is_warning=True),),
    )


def back_off_words(pod: Pod, container: str, delay: int) -> str:
    named = f"container={container} pod={_full_name(pod)}"
    return f"back-off {_duration(delay)} restarting failed {named}"


def _full_name(pod: Pod) -> str:
    return f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"


def backoffs() -> Iterator[int]:
    """Yield the back-offs in seconds, from the second restart on."""
    delay = FIRST_BACKOFF_SECONDS
    while True:
        yield delay
        delay = min(2 * delay, LONGEST_BACKOFF_SECONDS)


def _duration(seconds: int) -> str:
    """Return the duration as Go prints it: 40s, 1m20s, 5m0s."""
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
