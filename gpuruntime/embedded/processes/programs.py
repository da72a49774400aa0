"""Programs of this machine that stand for images: their containers run as processes.

A Pod runs as processes if one of its images stands for a program. Its other containers must run
here as well, by a command that begins with an interpreter.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from gpuruntime.embedded.kinds.container_objects import Variable
from gpuruntime.embedded.kinds.pod_objects import Container, Pod
from gpuruntime.embedded.nodes.failures import Fault, failing_with
from gpuruntime.framework.mounts import MOUNTS

# The prefix of the ids of these containers.
PROCESS: Final = "process://"
LOOPBACK: Final = "127.0.0.1"
INTERPRETERS: Final = ("python", "python3")
# Addresses at which a container listens inside its Pod, of one or both address families.
_EVERYWHERE: Final = ("0.0.0.0", "0.0.0.0,::")  # noqa: S104 - see above
# Containers inherit nothing of our own environment.
_ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}


@attrs.frozen(kw_only=True, slots=True)
class Program:
    """A program; the path is empty if this machine does not have it.

    Its arguments come before those of the container. If `address_variable` is set, that variable
    of the environment contains its address.
    """

    name: str
    path: str = ""
    arguments: tuple[str, ...] = ()
    address_variable: str = ""


# By image, and by the name of an interpreter.
Programs: TypeAlias = Mapping[str, Program]


@attrs.frozen(kw_only=True, slots=True)
class Start:
    """How a process is started; `places` are the real folders of its mount paths."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str = ""
    places: Mapping[str, str] = attrs.field(factory=dict)


def runs_as_processes(pod: Pod, programs: Programs) -> bool:
    return any(each.image in programs for each in (*pod.spec.initContainers, *pod.spec.containers))


def program_of(container: Container, programs: Programs) -> Program:
    """Return the program of the command, else of the image."""
    name = container.command[0].rpartition("/")[2] if container.command else ""
    if name in INTERPRETERS and name in programs:
        return programs[name]
    return programs.get(container.image, Program(name=name or container.image))


def missing_in(pod: Pod, programs: Programs) -> tuple[Container, Program] | None:
    """Return the first container whose program this machine lacks, with that program, or None."""
    for container in (*pod.spec.initContainers, *pod.spec.containers):
        program = program_of(container, programs)
        if not program.path:
            return container, program
    return None


def failing_without(container: Container, program: Program, pod: Pod, programs: Programs) -> Pod:
    """Return the Pod with a requested failure whose message names the remedy."""
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
    return failing_with(Fault.CONFIG_ERROR, words, container, pod)


def start_of(
    pod: Pod, container: Container, program: Program, places: Mapping[str, str], port: int
) -> Start:
    """Return the container's start, with real folders, address and port, and without Secrets."""
    address = {program.address_variable: f"{LOOPBACK}:{port}"} if program.address_variable else {}
    given = {
        each.name: relocated(_value(each, pod), places)
        for each in container.env
        if each.valueFrom is None or each.valueFrom.secretKeyRef is None
    }
    return Start(
        argv=(program.path, *program.arguments, *_arguments(container, places, port)),
        environment={**_ENVIRONMENT, MOUNTS: json.dumps(places), **given, **address},
        folder=container.workingDir,
        places=places,
    )


def command_in(start: Start, arguments: tuple[str, ...], programs: Programs) -> Start:
    """Return a command's start in the environment and folder of its container."""
    name = arguments[0].rpartition("/")[2]
    program = programs[name].path if name in INTERPRETERS and name in programs else arguments[0]
    given = (relocated(each, start.places) for each in arguments[1:])
    return attrs.evolve(start, argv=(program, *given))


def relocated(text: str, places: Mapping[str, str]) -> str:
    """Return the text with mount paths, and paths below them, replaced by the real ones."""
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
    """Return the variable's value; of field references only those listed here are known."""
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
