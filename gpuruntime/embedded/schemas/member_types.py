"""Types of the members that the server itself reads, with the error messages of Go."""

import re
from typing import Any, Final

import msgspec

from gpuruntime.errors import GpuRuntimeError

_GOT: Final = {"int": "number", "float": "number", "str": "string"}
_WANTED: Final = {"str": "string", "int": "int64", "object": "map[string]string"}


class MistypedError(GpuRuntimeError):
    """A member has another type than its kind requires."""


def check_shape(value: Any, shape: Any, struct: str, path: str = "") -> None:
    """Raise MistypedError unless the value has the shape.

    Go's message names `struct` and `path` before the member.
    """
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise MistypedError(_worded(str(error), struct, path)) from error


def _worded(fault: str, struct: str, path: str) -> str:
    types, _, place = fault.partition(" - at `$")
    names = re.findall("`([^`|]+)[^`]*`", types)
    if len(names) != 2:  # another form of message: a number out of range
        return f"json: {fault}"
    wanted, got = names
    member = re.sub(r"\[[^\]]*\]", "", place.rstrip("`")).removeprefix(".")
    named = ".".join(part for part in (struct, path, member) if part)
    return (
        f"json: cannot unmarshal {_GOT.get(got, got)} into Go struct field {named} "
        f"of type {_WANTED.get(wanted, wanted)}"
    )
