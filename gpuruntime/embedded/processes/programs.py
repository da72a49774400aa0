"""Programs of this machine, and which Pods run as processes.

A Pod runs as processes if one of its images stands for a program; its other containers must then
begin their command with the name of a program. Pods of units run by their command alone, if there
are rules for them.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import attrs

from gpuruntime.embedded.kinds.pod_objects import Container, Pod
from gpuruntime.embedded.nodes.failures import Fault, failing_with, failure_of

# The prefix of the ids of these containers.
PROCESS: Final = "process://"
LOOPBACK: Final = "127.0.0.1"
INTERPRETERS: Final = ("python", "python3")


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


# By image, and by the name with which a command begins.
Programs: TypeAlias = Mapping[str, Program]


@attrs.frozen(kw_only=True, slots=True)
class CommandRules:
    """Pods that run because of their command: those of the namespace with the label.

    Their commands begin with one of `names`, and their processes have `search_path` as PATH.
    """

    namespace: str
    label: str
    names: tuple[str, ...]
    search_path: str

    def cover(self, pod: Pod) -> bool:
        metadata = pod.metadata
        return metadata.namespace == self.namespace and self.label in metadata.labels


@attrs.frozen(kw_only=True, slots=True)
class ProcessRules:
    """Rules for which Pods run as processes; all others are simulated."""

    programs: Programs = attrs.field(factory=dict)
    commands: CommandRules | None = None

    def run(self, pod: Pod) -> bool:
        return self._has_image(pod) or self.search_path(pod) is not None

    def search_path(self, pod: Pod) -> str | None:
        """Return the PATH of a Pod that runs because of its command, or None if it does not."""
        if self.commands is None or self._has_image(pod) or not self.commands.cover(pod):
            return None
        return None if any(self._obstacles(pod)) else self.commands.search_path

    def why_simulated(self, pod: Pod) -> str:
        """Return why the Pod's command does not run here, or nothing if no rule covers it."""
        if self.commands is None or not self.commands.names or not self.commands.cover(pod):
            return ""
        return next(self._obstacles(pod), "")

    def program_of(self, container: Container) -> Program:
        """Return the program of the command, else of the image."""
        name = name_of(container)
        if name in self.programs:
            return self.programs[name]
        return self.programs.get(container.image, Program(name=name or container.image))

    def missing_in(self, pod: Pod) -> tuple[Container, Program] | None:
        """Return the first container whose program this machine lacks, with it, or None."""
        for container in _containers(pod):
            program = self.program_of(container)
            if not program.path:
                return container, program
        return None

    def failing_without(self, container: Container, program: Program, pod: Pod) -> Pod:
        """Return the Pod with a requested failure whose message names the remedy."""
        if container.image in self.programs:
            words = (
                f"the program {program.name}, which runs {container.image} here, is not on the "
                "PATH: install it and start again"
            )
        else:
            words = (
                f"{container.image} runs as a process here, which is possible for a command that "
                f"begins with {' or '.join(INTERPRETERS)}: give the template one"
            )
        return failing_with(Fault.CONFIG_ERROR, words, container, pod)

    def _has_image(self, pod: Pod) -> bool:
        return any(each.image in self.programs for each in _containers(pod))

    def _obstacles(self, pod: Pod) -> Iterator[str]:
        names = self.commands.names if self.commands else ()
        listed = ", ".join(names)
        for container in _containers(pod):
            name = name_of(container)
            if failure_of(pod, container) is not None:
                yield "a failure is asked for"
            elif not name:
                yield f"it has no command, and only commands run here that begin with {listed}"
            elif name not in names:
                yield f"its command begins with {name}, and only these run here: {listed}"
            elif not self.program_of(container).path:
                yield f"{name} is not on the PATH: install it and start again"


def name_of(container: Container) -> str:
    """Return the name of the program with which the command begins, or nothing without one."""
    return container.command[0].rpartition("/")[2] if container.command else ""


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.initContainers, *pod.spec.containers)
