"""Programs of this machine that stand for those of images: their containers run as processes.

A Pod runs as processes if one of its images stands for a program. What else is in such a Pod has
to run here as well, by a command that begins with an interpreter.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from gpuruntime.embedded.kinds.container_objects import Variable
from gpuruntime.embedded.kinds.pod_objects import Container, Pod
from gpuruntime.embedded.nodes.failures import CONTAINER, FAIL, Fault
from gpuruntime.framework.mounts import MOUNTS

# How the id of such a container begins.
PROCESS: Final = "process://"
LOOPBACK: Final = "127.0.0.1"
INTERPRETERS: Final = ("python", "python3")
# What a container listens on, inside its own Pod: of one family of addresses, or of either.
_EVERYWHERE: Final = ("0.0.0.0", "0.0.0.0,::")  # noqa: S104 - see above
# Nothing of our own environment is for containers.
_ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}


@attrs.frozen(kw_only=True, slots=True)
class Program:
    """The path is empty where this machine does not have it.

    Its own arguments come before those of a container. One that takes its address from a variable
    of the environment is told it there.
    """

    name: str
    path: str = ""
    arguments: tuple[str, ...] = ()
    address_variable: str = ""


# By image, and by the name of an interpreter.
Programs: TypeAlias = Mapping[str, Program]


@attrs.frozen(kw_only=True, slots=True)
class Start:
    """How a process is started."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str = ""


def runs_as_processes(pod: Pod, programs: Programs) -> bool:
    return any(each.image in programs for each in (*pod.spec.initContainers, *pod.spec.containers))


def program_of(container: Container, programs: Programs) -> Program:
    """Of the command, or else of the image."""
    name = container.command[0].rpartition("/")[2] if container.command else ""
    if name in INTERPRETERS and name in programs:
        return programs[name]
    return programs.get(container.image, Program(name=name or container.image))


def missing_in(pod: Pod, programs: Programs) -> tuple[Container, Program] | None:
    """The first container whose program this machine does not have."""
    for container in (*pod.spec.initContainers, *pod.spec.containers):
        program = program_of(container, programs)
        if not program.path:
            return container, program
    return None


def failing_without(container: Container, program: Program, pod: Pod, programs: Programs) -> Pod:
    """As if it had been asked to fail, with the remedy for its words."""
    if container.image in programs:
        words = (
            f"the program {program.name}, which runs {container.image} here, is not on the PATH: "
            "install it and start again"
        )
    else:
        words = (
            f"{container.image} runs as a process here, which is possible for a command that "
            f"begins with {' or '.join(INTERPRETERS)}: give the template one"
        )
    notes = {
        **pod.metadata.annotations,
        FAIL: f"{Fault.CONFIG_ERROR}: {words}",
        CONTAINER: container.name,
    }
    return attrs.evolve(pod, metadata=attrs.evolve(pod.metadata, annotations=notes))


def start_of(
    pod: Pod, container: Container, program: Program, places: Mapping[str, str], port: int
) -> Start:
    """The container's own, but for what is elsewhere outside of it: folders, address and port."""
    address = {program.address_variable: f"{LOOPBACK}:{port}"} if program.address_variable else {}
    told = {each.name: relocated(_value(each, pod), places) for each in container.env}
    return Start(
        argv=(program.path, *program.arguments, *_arguments(container, places, port)),
        environment={**_ENVIRONMENT, MOUNTS: json.dumps(places), **told, **address},
        folder=container.workingDir,
    )


def relocated(text: str, places: Mapping[str, str]) -> str:
    """With the true places of all paths that are, or are below, one of these."""
    if not places:
        return text
    listed = "|".join(re.escape(path) for path in sorted(places, key=len, reverse=True))
    return re.sub(rf"(?<![\w./-])({listed})(?![\w.-])", lambda found: places[found.group(1)], text)


def _arguments(container: Container, places: Mapping[str, str], port: int) -> list[str]:
    here = {str(each.containerPort): str(port) for each in container.ports}
    here.update(dict.fromkeys(_EVERYWHERE, LOOPBACK))
    given = (*container.command[1:], *container.args)
    return [relocated(here.get(each, each), places) for each in given]


def _value(variable: Variable, pod: Pod) -> str:
    """Of fields those that the Pod's own name tells; none of the others is known here."""
    source = variable.valueFrom
    if source is None or source.fieldRef is None:
        return variable.value
    metadata = pod.metadata
    known = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
        "spec.nodeName": pod.spec.nodeName,
        "status.podIP": LOOPBACK,
    }
    return known.get(source.fieldRef.fieldPath, "")
