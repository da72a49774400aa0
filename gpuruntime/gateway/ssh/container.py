"""A unit as SSH reaches it: programs in its container, and connections to its ports.

Every method here raises ContainerError, and nothing else for a fault of the unit or the cluster.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

import attrs

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.models.kubernetes.exec_streams import Output

PIECE_BYTES: Final = 32 * 1024


class ContainerError(GpuRuntimeError):
    """The unit could not be reached, or what ran in it could not be followed to its end."""


class NotRunError(ContainerError):
    """The program could not be run; `output` of its execution raises it."""


@attrs.frozen(kw_only=True, slots=True)
class Program:
    arguments: tuple[str, ...]
    has_input: bool = False
    has_terminal: bool = False


class Execution(Protocol):
    """A program that runs. One task reads `output`, and any number of others write."""

    @property
    def exit_code(self) -> int | None:
        """Return the code once `output` has ended, and None before."""
        ...

    async def write(self, data: bytes) -> None: ...

    async def end_input(self) -> None: ...

    async def resize(self, *, columns: int, rows: int) -> None: ...

    def output(self) -> AsyncIterator[Output]: ...


class Container(Protocol):
    def execute(self, program: Program) -> AbstractAsyncContextManager[Execution]:
        """Start a program; the end of the block closes its streams."""
        ...


class Stream(Protocol):
    """A connection to a port or a socket. One task reads `output`, and another one writes."""

    async def write(self, data: bytes) -> None: ...

    async def end(self) -> None:
        """End our half, if this kind of connection can."""
        ...

    def output(self) -> AsyncIterator[bytes]:
        """Yield bytes, and empty ones when the far side has ended its half alone."""
        ...


class Reach(Protocol):
    """The parts of one unit that SSH reaches."""

    @property
    def container(self) -> Container: ...

    def dial(self, port: int) -> AbstractAsyncContextManager[Stream]:
        """Connect to a port as the unit's own programs would; the end of the block closes it."""
        ...
