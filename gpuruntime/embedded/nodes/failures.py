"""Behaviour of simulated containers, and how a Pod requests a failure.

A simulated Pod has no processes: its containers start, become ready and end by the clock. A
container with restart policy Always runs until it is deleted; any other one succeeds after
`run-seconds`. An annotation on the Pod requests a failure,

    simulate.runtime.lokiwager.io/fail: crash=3: disk is full

or, if the Pod's annotations cannot be set, the variable SIMULATE_FAIL in the environment of the
container that shall fail. The value is one of

    image-pull[: words]    ErrImagePull and ImagePullBackOff, for ever
    config-error[: words]  CreateContainerConfigError, for ever
    crash[=code][: words]  the container ends after `run-seconds` with that exit code (1) and these
                           words as termination message; the restart policy decides what follows,
                           from CrashLoopBackOff to a failed Pod
    never-ready[: words]   the container runs and does not become ready

Two more annotations: `…/container` names the container that fails (the first main one), and
`…/run-seconds` says how long a container that ends runs.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import attrs

from gpuruntime.embedded.kinds.pod_objects import Container, Pod

PREFIX: Final = "simulate.runtime.lokiwager.io"
FAIL: Final = f"{PREFIX}/fail"
CONTAINER: Final = f"{PREFIX}/container"
RUN_SECONDS: Final = f"{PREFIX}/run-seconds"
FAIL_VARIABLE: Final = "SIMULATE_FAIL"

_FAILURE: Final = re.compile(
    r"(?P<fault>[a-z-]+)(=(?P<code>[0-9]{1,3}))?(:\s*(?P<words>.*))?", re.DOTALL
)


class Fault(StrEnum):
    IMAGE_PULL = "image-pull"
    CONFIG_ERROR = "config-error"
    CRASH = "crash"
    NEVER_READY = "never-ready"


@attrs.frozen(kw_only=True, slots=True)
class Failure:
    fault: Fault
    exit_code: int = 1
    words: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Pace:
    """Durations of simulated containers, in seconds."""

    start_seconds: float = 0.2
    init_seconds: float = 0.1
    ready_seconds: float = 0.3
    run_seconds: float = 1.0
    stop_seconds: float = 0.1
    # The time from a failure until the kubelet reports a back-off.
    settle_seconds: float = 0.5


def failure_of(pod: Pod, container: Container) -> Failure | None:
    """Return the requested failure, or None; an invalid request is a failure that says so."""
    asked = _environment(container).get(FAIL_VARIABLE, "")
    if asked:
        return _parsed(asked, f"variable {FAIL_VARIABLE}")
    asked = pod.metadata.annotations.get(FAIL, "")
    named = pod.metadata.annotations.get(CONTAINER) or _first(pod)
    return _parsed(asked, f"annotation {FAIL}") if asked and container.name == named else None


def failing_with(fault: Fault, words: str, container: Container, pod: Pod) -> Pod:
    """Return the Pod with a requested failure of the container."""
    asked = {FAIL: f"{fault}: {words}", CONTAINER: container.name}
    notes = {**pod.metadata.annotations, **asked}
    return attrs.evolve(pod, metadata=attrs.evolve(pod.metadata, annotations=notes))


def run_seconds(pod: Pod, pace: Pace) -> float:
    text = pod.metadata.annotations.get(RUN_SECONDS, "")
    try:
        return max(0.0, float(text)) if text else pace.run_seconds
    except ValueError:
        return pace.run_seconds


def _environment(container: Container) -> Mapping[str, str]:
    return {variable.name: variable.value for variable in container.env}


def _first(pod: Pod) -> str:
    return pod.spec.containers[0].name if pod.spec.containers else ""


def _parsed(text: str, source: str) -> Failure:
    found = _FAILURE.fullmatch(text.strip())
    if found is None or found["fault"] not in set(Fault):
        known = ", ".join(Fault)
        words = f"{source}: {text!r} asks for none of {known}"
        return Failure(fault=Fault.CONFIG_ERROR, words=words)
    code = found["code"]
    return Failure(
        fault=Fault(found["fault"]),
        exit_code=int(code) if code else 1,
        words=found["words"] or "",
    )
