"""Images that stand for programs of this machine: their containers run as real processes."""

from collections.abc import Mapping
from typing import Final, TypeAlias

import attrs

from gpuruntime.local.pod_objects import Container, Pod
from gpuruntime.local.simulation import FAIL, Fault

# How the id of such a container begins.
PROCESS: Final = "process://"
LOOPBACK: Final = "127.0.0.1"
# What a container listens on, inside its own Pod: of one family of addresses, or of either.
_EVERYWHERE: Final = ("0.0.0.0", "0.0.0.0,::")  # noqa: S104 - see above


@attrs.frozen(kw_only=True, slots=True)
class Program:
    """The path is empty where this machine does not have it."""

    name: str
    path: str = ""


# By image.
Programs: TypeAlias = Mapping[str, Program]


def program_of(pod: Pod, programs: Programs) -> Program | None:
    """Of a Pod with one container and nothing before it."""
    containers = pod.spec.containers
    if len(containers) != 1 or pod.spec.initContainers:
        return None
    return programs.get(containers[0].image)


def failing_without(program: Program, pod: Pod) -> Pod:
    """As if it had been asked to fail, with the remedy for its words."""
    image = pod.spec.containers[0].image
    words = (
        f"the program {program.name}, which runs {image} here, is not on the PATH: "
        "install it and start again"
    )
    notes = {**pod.metadata.annotations, FAIL: f"{Fault.CONFIG_ERROR}: {words}"}
    return attrs.evolve(pod, metadata=attrs.evolve(pod.metadata, annotations=notes))


def arguments_of(container: Container, folders: Mapping[str, str], port: int) -> list[str]:
    """The container's own, but for what is elsewhere outside of it: folders, address and port."""
    here = {str(each.containerPort): str(port) for each in container.ports}
    here.update(dict.fromkeys(_EVERYWHERE, LOOPBACK))
    here.update(folders)
    return [here.get(argument, argument) for argument in container.args]
