"""The query of an exec request: the command, its terminal and the terminal's size."""

import re
from collections.abc import Iterator
from typing import Final

import attrs
from multidict import MultiMapping

from gpuruntime.gateway.containers.exec_messages import is_size
from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.kube.pod_exec import LARGEST_SIDE, Command, fault_of
from gpuruntime.models.kinds.templates import RUNTIME_CONTAINER

LOGIN_SHELL: Final = ("sh", "-c", "exec $(command -v bash || echo sh) -l")
_KNOWN: Final = ("command", "tty", "columns", "rows")
_SWITCH: Final = {"true": True, "false": False}
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


@attrs.frozen(kw_only=True, slots=True)
class ExecRequest:
    """A command as a caller asks for it; `size` is columns and rows of its terminal."""

    arguments: tuple[str, ...] = LOGIN_SHELL
    has_terminal: bool = False
    size: tuple[int, int] | None = None

    @property
    def is_login_shell(self) -> bool:
        return self.arguments == LOGIN_SHELL

    @property
    def command(self) -> Command:
        """Return the command; its container is never the caller's choice."""
        return Command(
            container=RUNTIME_CONTAINER, arguments=self.arguments, has_terminal=self.has_terminal
        )


def parse_exec_request(query: MultiMapping[str]) -> ExecRequest:
    """Read the query. Raise GatewayError with all its faults."""
    faults = tuple(_faults(query))
    if faults:
        raise GatewayError(Code.INVALID_REQUEST, "; ".join(faults))
    columns, rows = query.get("columns", ""), query.get("rows", "")
    return ExecRequest(
        arguments=tuple(query.getall("command", ())) or LOGIN_SHELL,
        has_terminal=_SWITCH[query.get("tty", "false")],
        size=(int(columns), int(rows)) if columns else None,
    )


def _faults(query: MultiMapping[str]) -> Iterator[str]:
    for name in dict.fromkeys(query):
        if name not in _KNOWN:
            yield f"{name[:40]!r} is no parameter: known are {', '.join(_KNOWN)}"
        elif name != "command" and len(query.getall(name)) > 1:
            yield f"{name} is given more than once"
    arguments = tuple(query.getall("command", ()))
    if arguments and (fault := fault_of(arguments)):
        yield fault
    if query.get("tty", "false") not in _SWITCH:
        yield "tty must be true or false"
    if "columns" in query or "rows" in query:
        columns, rows = (query.get(name, "") for name in ("columns", "rows"))
        if query.get("tty") != "true":
            yield "columns and rows are for a terminal: add tty=true"
        elif not all(map(_NUMBER.fullmatch, (columns, rows))) or not is_size(
            int(columns), int(rows)
        ):
            yield f"columns and rows must be two numbers from 1 to {LARGEST_SIDE}"
