"""How a container starts as a process: its arguments, environment, folder and ports."""

import json
import re
from collections.abc import Mapping
from typing import Final

import attrs

from gpuruntime.embedded.kinds.container_objects import Variable
from gpuruntime.embedded.kinds.pod_objects import Container, Pod
from gpuruntime.embedded.processes.port_plan import NO_PORTS, Ports
from gpuruntime.embedded.processes.programs import LOOPBACK, ProcessRules, Program
from gpuruntime.framework.mounts import MOUNTS

# Containers inherit nothing of our own environment.
_ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}


@attrs.frozen(kw_only=True, slots=True)
class Home:
    """The folder of a container that is its own, and the PATH with which it starts."""

    folder: str
    search_path: str


@attrs.frozen(kw_only=True, slots=True)
class Start:
    """How a process is started; `places` are the real folders of its mount paths."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str = ""
    places: Mapping[str, str] = attrs.field(factory=dict)
    ports: Ports = NO_PORTS


def start_of(
    pod: Pod,
    container: Container,
    program: Program,
    *,
    places: Mapping[str, str],
    ports: Ports = NO_PORTS,
    home: Home | None = None,
) -> Start:
    """Return the container's start, with real folders, address and ports, and without Secrets."""
    given = {
        each.name: relocated(_value(each, pod), places)
        for each in container.env
        if each.valueFrom is None or each.valueFrom.secretKeyRef is None
    }
    own = {"HOME": home.folder, "PATH": home.search_path} if home else {}
    variable = program.address_variable
    address = {variable: f"{LOOPBACK}:{ports.address}"} if variable else {}
    told = {} if variable else ports.told(given)
    arguments = (*container.command[1:], *container.args)
    return Start(
        argv=(
            program.path,
            *program.arguments,
            *(relocated(ports.relocated(each), places) for each in arguments),
        ),
        environment={
            **_ENVIRONMENT,
            **own,
            MOUNTS: json.dumps(places),
            **given,
            **told,
            **address,
        },
        folder=container.workingDir or (home.folder if home else ""),
        places=places,
        ports=ports,
    )


def command_in(start: Start, arguments: tuple[str, ...], rules: ProcessRules) -> Start:
    """Return a command's start in the environment and folder of its container."""
    name = arguments[0].rpartition("/")[2]
    program = rules.programs.get(name)
    first = program.path if program and program.path else arguments[0]
    given = (relocated(each, start.places) for each in arguments[1:])
    return attrs.evolve(start, argv=(first, *given))


def relocated(text: str, places: Mapping[str, str]) -> str:
    """Return the text with mount paths, and paths below them, replaced by the real ones."""
    if not places:
        return text
    listed = "|".join(re.escape(path) for path in sorted(places, key=len, reverse=True))
    return re.sub(rf"(?<![\w./-])({listed})(?![\w.-])", lambda found: places[found.group(1)], text)


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
