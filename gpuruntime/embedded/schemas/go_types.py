"""How Go reads and writes the built-in kinds: types, empty members, nulls and quantities.

A server's answer differs from what it was sent. Empty members are dropped, structures that Go
always writes are added, and quantities and timestamps get a canonical form. A document is read
here in the same way, so that this server stores what a real one stores. A program of the tests
generates the table of types.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, Protocol

import attrs

from gpuruntime.embedded.apiserver.documents import Document
from gpuruntime.embedded.schemas.member_types import MistypedError
from gpuruntime.models.kubernetes.quantities import InvalidQuantityError, Quantity, parse_quantity
from gpuruntime.models.kubernetes.timestamps import rfc3339, rfc3339_micro

_TABLE: Final = "builtin_types.txt"
_MEMBER: Final = re.compile(
    r"(?P<name>[^:]+):(?P<pointer>\*?)(?P<type>[^?|~]+)(?P<empty>\?{0,2})"
    r"(?P<merge>\|(?P<key>[^~]*))?(?P<retains>~?)"
)
QUANTITY: Final = "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_GOT: Final = {
    bool: "bool",
    dict: "object",
    float: "number",
    int: "number",
    list: "array",
    str: "string",
}


class _UnfitError(Exception):
    """The value has another type; the structure around it words the message."""

    def __init__(self, value: Any, path: str, wanted: str) -> None:
        super().__init__()
        self.got = _GOT[type(value)]
        self.path = re.sub(r"\[[0-9]+\]", "", path)
        self.wanted = wanted


class GoType(Protocol):
    """A Go type; `zero` is what Go writes for an absent value, and `read` never gets a null.

    Reading appends the paths of unknown members to `unknown` and leaves the members out.
    """

    def read(self, value: Any, path: str, unknown: list[str]) -> Any: ...

    def zero(self) -> Any: ...


@attrs.frozen(eq=False)
class Scalar:
    """A type of plain values, whose optional `form` brings them into canonical form."""

    name: str
    types: tuple[type, ...]
    empty: Any
    form: Callable[[Any], Any] | None = None

    def read(self, value: Any, path: str, unknown: list[str]) -> Any:
        if type(value) not in self.types:
            raise _UnfitError(value, path, self.name)
        return value if self.form is None else self.form(value)

    def zero(self) -> Any:
        return self.empty


@attrs.frozen(eq=False)
class ListOf:
    item: GoType

    def read(self, value: Any, path: str, unknown: list[str]) -> Any:
        if type(value) is not list:
            raise _UnfitError(value, path, "[]")
        return [
            self.item.zero() if each is None else self.item.read(each, f"{path}[{index}]", unknown)
            for index, each in enumerate(value)
        ]

    def zero(self) -> Any:
        return None


@attrs.frozen(eq=False)
class MapOf:
    value: GoType

    def read(self, value: Any, path: str, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _UnfitError(value, path, "map[string]")
        return {
            name: self.value.zero() if each is None else self.value.read(each, path, unknown)
            for name, each in value.items()
        }

    def zero(self) -> Any:
        return None


@attrs.frozen(kw_only=True, eq=False)
class Member:
    """A member of a structure.

    A strategic patch replaces it if `merge_key` is None, and merges plain values if it is empty.
    """

    type: GoType
    is_pointer: bool
    drops_empty: bool
    merge_key: str | None
    retains_keys: bool


@attrs.define(eq=False)
class Struct:
    """A structure; its members are set once all structures exist: some contain themselves."""

    name: str
    members: dict[str, Member] = attrs.field(factory=dict)
    always: tuple[str, ...] = ()

    def read(self, value: Any, path: str, unknown: list[str]) -> Any:
        if type(value) is not dict:
            raise _UnfitError(value, path, f"v1.{self.name}")
        try:
            read = self._given(value, path, unknown)
        except _UnfitError as error:
            raise MistypedError(
                f"json: cannot unmarshal {error.got} into Go struct field "
                f"{self.name}.{error.path} of type {error.wanted}"
            ) from error
        for name in self.always:
            if name not in read:
                read[name] = self.members[name].type.zero()
        return read

    def zero(self) -> Any:
        return self.read({}, "", [])

    def _given(self, value: Document, path: str, unknown: list[str]) -> Document:
        read: Document = {}
        prefix = f"{path}." if path else ""
        for name, given in value.items():
            member = self.members.get(name)
            if member is None:
                unknown.append(prefix + name)
            elif given is not None:
                one = member.type.read(given, prefix + name, unknown)
                if one or not member.drops_empty:
                    read[name] = one
        return read


def read_document(struct: Struct, document: Document) -> list[str]:
    """Read everything but the metadata, in place, and return the paths of unknown members."""
    metadata, head = document["metadata"], {"kind", "apiVersion", "metadata"}
    unknown: list[str] = []
    rest = {name: value for name, value in document.items() if name not in head}
    read = struct.read(rest, "", unknown)
    for name in rest:
        del document[name]
    document |= read
    document["metadata"] = metadata
    return unknown


@cache
def go_structs() -> Mapping[str, Struct]:
    """Return all structures of the table, by name."""
    lines = files("gpuruntime.embedded.schemas").joinpath(_TABLE).read_text().splitlines()
    table = {name: members.split() for name, _, members in (line.partition(" ") for line in lines)}
    structs = {name: Struct(name) for name in table}
    for name, members in table.items():
        struct = structs[name]
        struct.members = dict(_member(text, structs) for text in members)
        struct.always = tuple(
            each
            for each, member in struct.members.items()
            if not member.is_pointer and not member.drops_empty
        )
    return structs


def _member(text: str, structs: Mapping[str, Struct]) -> tuple[str, Member]:
    found = _MEMBER.fullmatch(text)
    if found is None:
        raise ValueError(f"{_TABLE}: {text!r} is no member")
    of = _type(found["type"], structs)
    is_pointer = bool(found["pointer"])
    # Go's omitempty keeps structures; only omitzero drops them.
    is_structure = isinstance(of, Struct) or of in (TIME, MICRO_TIME)
    drops_empty = found["empty"] == "??" or (found["empty"] == "?" and not is_structure)
    return found["name"], Member(
        type=of,
        is_pointer=is_pointer,
        drops_empty=drops_empty and not is_pointer,
        merge_key=found["key"],
        retains_keys=bool(found["retains"]),
    )


def _type(text: str, structs: Mapping[str, Struct]) -> GoType:
    match text[0], text[1:]:
        case "[", inner:
            return ListOf(_type(inner, structs))
        case "{", "Quantity":
            return MapOf(RESOURCE)
        case "{", inner:
            return MapOf(_type(inner, structs))
        case "*", inner:
            return _type(inner, structs)
        case _:
            return SCALARS.get(text) or structs[text]


@lru_cache(maxsize=4096)
def _quantity(value: str | float) -> str:
    return str(_parsed(value))


@lru_cache(maxsize=4096)
def _resource(value: str | float) -> str:
    """Return the canonical form in a list of resources, which Go keeps in thousandths."""
    return str(_parsed(value).in_whole_millis)


def _parsed(value: str | float) -> Quantity:
    try:
        return parse_quantity(str(value))
    except InvalidQuantityError as error:
        raise MistypedError(f"quantities must match the regular expression {QUANTITY}") from error


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise MistypedError(f'parsing time "{text}": {error}') from error
    if moment.tzinfo is None:
        raise MistypedError(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": no time zone')
    return moment


def _time(text: str) -> str:
    return rfc3339(_moment(text))


def _micro_time(text: str) -> str:
    if not re.search(r"\.[0-9]{6}(Z|[+-])", text):
        raise MistypedError(f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00"')
    return rfc3339_micro(_moment(text))


def _bytes(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise MistypedError(f"illegal base64 data: {error}") from error
    return text


class Anything:
    """A type whose values Go keeps unchanged."""

    def read(self, value: Any, path: str, unknown: list[str]) -> Any:
        return value

    def zero(self) -> Any:
        return None


RESOURCE: Final = Scalar("resource.Quantity", (str, int, float), "0", _resource)
TIME: Final = Scalar("v1.Time", (str,), None, _time)
MICRO_TIME: Final = Scalar("v1.MicroTime", (str,), None, _micro_time)
SCALARS: Final[Mapping[str, GoType]] = {
    "string": Scalar("string", (str,), ""),
    "int": Scalar("int32", (int,), 0),
    "bool": Scalar("bool", (bool,), False),
    "float64": Scalar("float64", (int, float), 0),
    "bytes": Scalar("[]uint8", (str,), "", _bytes),
    "Quantity": Scalar("resource.Quantity", (str, int, float), "0", _quantity),
    "IntOrString": Scalar("intstr.IntOrString", (int, str), 0),
    "Time": TIME,
    "MicroTime": MICRO_TIME,
    "Any": Anything(),
}
