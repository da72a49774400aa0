"""Ports of a container as a process: it shares the machine's ports with every other program.

An argument that names a declared port gets a free port instead. Other declared ports stay as they
are, since a program may have its port from a file or from its own code.
"""

import errno
import re
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from gpuruntime.embedded.kinds.container_objects import ContainerPort
from gpuruntime.embedded.kinds.pod_objects import Container
from gpuruntime.embedded.processes.port_holders import holder_of
from gpuruntime.embedded.processes.probes import port_asked
from gpuruntime.embedded.processes.programs import LOOPBACK, Program
from gpuruntime.errors import GpuRuntimeError

# Below the ports that Linux and macOS give to sockets that ask for any.
PORTS: Final = range(20_000, 32_000)
TOLD: Final = "PORT"
TOLD_BY_NAME: Final = "GPURUNTIME_PORT_"
# Addresses at which a container listens inside its Pod, of one or both address families.
_EVERYWHERE: Final = r"(?:0\.0\.0\.0(?:,::)?|\[::\])"


class PortTakenError(GpuRuntimeError):
    """Another program listens at a port that the container needs."""


@attrs.frozen(kw_only=True, slots=True)
class Ports:
    """The real port of each port inside the Pod, by number and by name.

    `first` is the port inside the Pod that the variable PORT is about, or 0. A program that gets
    its address as a variable has the real port `address`.
    """

    by_number: Mapping[int, int] = attrs.field(factory=dict)
    numbers: Mapping[str, int] = attrs.field(factory=dict)
    first: int = 0
    address: int = 0

    def real(self, asked: int | str) -> int | None:
        """Return the real port, or None if the container does not declare the asked one."""
        number = self.numbers.get(asked) if isinstance(asked, str) else asked
        return None if number is None else self.by_number.get(number)

    @property
    def unchanged(self) -> Iterator[int]:
        return (number for number, real in self.by_number.items() if number == real)

    @property
    def words(self) -> str:
        """Return where the ports are, for the message of the Pod."""
        return "".join(
            f", {number} at {LOOPBACK}:{real}" for number, real in self.by_number.items()
        )

    def relocated(self, argument: str) -> str:
        """Return the argument with real ports, and with loopback instead of every address."""
        for number, real in self.by_number.items():
            if number != real and _names(argument, number):
                argument = argument.removesuffix(str(number)) + str(real)
                break
        return re.sub(rf"(^|[=/]){_EVERYWHERE}(:\d+)?$", rf"\g<1>{LOOPBACK}\g<2>", argument)

    def told(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the variables with the real ports; another value of the caller's stays."""
        names = {number: name for name, number in self.numbers.items()}
        found = {
            TOLD_BY_NAME + _upper(names.get(number, str(number))): number
            for number in self.by_number
        }
        if self.first:
            found[TOLD] = self.first
        return {
            name: str(self.by_number[number])
            for name, number in found.items()
            if given.get(name, str(number)) == str(number)
        }


NO_PORTS: Final = Ports()


def ports_of(container: Container, program: Program, free_port: Callable[[], int]) -> Ports:
    """Return the ports; a program that gets its address as a variable listens at one port only."""
    declared = {each.containerPort: each.name for each in container.ports if _is_tcp(each)}
    numbers = {name: number for number, name in declared.items() if name}
    probes = (container.readinessProbe, container.startupProbe, container.livenessProbe)
    probed = [
        numbers.get(asked, 0) if isinstance(asked, str) else asked
        for asked in map(port_asked, probes)
    ]
    inside = [number for number in dict.fromkeys([*declared, *probed]) if number]
    shared = free_port() if program.address_variable else 0
    return Ports(
        by_number=_real_ports(inside, container, free_port, shared),
        numbers=numbers,
        first=probed[0] or next(iter(declared), 0),
        address=shared,
    )


def demand_free(ports: Ports) -> None:
    """Raise PortTakenError if another program listens at a port that the container keeps."""
    for number in ports.unchanged:
        if not is_free(number):
            holder = holder_of(number) or "another program"
            raise PortTakenError(
                f"port {number} of this machine is taken by {holder}: name the port in an "
                "argument of the command, which then gets a free one, or declare another port"
            )


def free_port() -> int:
    """Return a free port of `PORTS`; no other socket gets it before the container listens."""
    while not is_free(port := secrets.choice(PORTS)):
        pass
    return port


def is_free(port: int) -> bool:
    """Return whether no program listens at the port; one that this user may not take is free."""
    try:
        with socket.create_server((LOOPBACK, port)):
            return True
    except OSError as error:
        return error.errno != errno.EADDRINUSE


def _real_ports(
    inside: Sequence[int], container: Container, free: Callable[[], int], shared: int
) -> Mapping[int, int]:
    words = (*container.command[1:], *container.args)
    found: dict[int, int] = {}
    for number in inside:
        real = shared or number
        if not shared and any(_names(word, number) for word in words):
            while (real := free()) in (*inside, *found.values()):
                pass
        found[number] = real
    return found


def _names(argument: str, port: int) -> bool:
    return re.fullmatch(rf"(?:.*[:=])?{port}", argument, re.DOTALL) is not None


def _is_tcp(port: ContainerPort) -> bool:
    return port.protocol == "TCP"


def _upper(name: str) -> str:
    return name.upper().replace("-", "_")
