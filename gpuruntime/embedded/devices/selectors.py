"""Selectors of devices: CEL over one device, evaluated by the library of the extra `local`.

Quantities are whole thousandths, and versions are lists that sort as semver.org defines.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

import attrs

from gpuruntime.models.kubernetes.devices import Device
from gpuruntime.models.kubernetes.quantities import InvalidQuantityError, parse_quantity

Compiled: TypeAlias = Any  # an expression of the library, which has no types
Inputs: TypeAlias = dict[str, dict[str, Any]]

LONGEST_SELECTOR: Final = 10 * 1024
MISSING_LIBRARY: Final = "selectors need cel-expr-python: pip install 'gpuruntime[local]'"
ERROR: Final = "ERROR"
MEMBERS: Final = ("driver", "attributes", "capacity")
SEMVER: Final = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
)

_TEXT: Final = re.compile(r"""r?("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")
_MEMBER: Final = re.compile(r"(?<![\w.])device\s*\.\s*\??\s*([A-Za-z_]\w*)")
_MISSING_KEY: Final = re.compile(r'Key not found in map : "(.*)"', re.DOTALL)


class SelectorError(Exception):
    """A selector does not compile, or fails for a device; the text is the API server's."""


@attrs.frozen(slots=True)
class Selector:
    _compiled: Compiled

    def matches(self, driver: str, device: Device) -> bool:
        """Return whether the device matches; raise SelectorError if the evaluation fails."""
        attributes = _by_domain(driver, device.attributes, _attribute)
        capacity = _by_domain(driver, device.capacity, lambda each: _millis(str(each.value)))
        while True:
            data = {"driver": driver, "attributes": attributes, "capacity": capacity}
            result = self._compiled.eval(data={"device": data})
            value, kind = result.plain_value(), result.type().name()
            if isinstance(value, bool):
                return value
            if kind != ERROR:
                why = f"CEL result of type {kind.lower()} could not be converted to bool"
                raise SelectorError(why)
            missing = _MISSING_KEY.search(str(value))
            if missing is None:
                is_overload = "No matching overloads" in str(value)
                raise SelectorError("no such overload" if is_overload else str(value))
            key = missing[1]
            # An absent domain is an empty map for Kubernetes, and an error for the library. A key
            # that is missing even so is a name.
            if key in attributes and key in capacity:
                raise SelectorError(f"no such key: {key}")
            attributes = {key: {}, **attributes}
            capacity = {key: {}, **capacity}


@lru_cache(maxsize=1024)
def compiled_selector(expression: str) -> Selector:
    """Return the compiled selector; raise SelectorError with the API server's words."""
    for name in _MEMBER.findall(_TEXT.sub("''", expression)):
        if name not in MEMBERS:
            raise SelectorError(f"compilation failed: ERROR: <input>: undefined field '{name}'")
    try:
        program = _environment().compile(expression)
    except ModuleNotFoundError as error:
        raise SelectorError(MISSING_LIBRARY) from error
    except Exception as error:  # the library raises plain exceptions
        raise SelectorError(f"compilation failed: {error}") from error
    kind = program.return_type().name()
    if kind not in ("BOOL", "bool", "DYN", "dyn"):
        why = f"must evaluate to bool or the unknown type, not {kind.lower()}"
        raise SelectorError(why)
    return Selector(program)


def _by_domain(driver: str, members: Mapping[str, Any], value_of: Callable[[Any], Any]) -> Inputs:
    """Return the values by domain and name; a name without a domain belongs to the driver."""
    found: Inputs = {}
    for name, value in members.items():
        domain, slash, rest = name.partition("/")
        inner = found.setdefault(domain if slash else driver, {})
        inner[rest if slash else domain] = value_of(value)
    return found


def _attribute(attribute: Mapping[str, Any]) -> Any:
    kind, value = next(iter(attribute.items()))
    return _version(str(value)) if kind == "version" else value


def _millis(text: str) -> int:
    millis: int = parse_quantity(text).millis_rounded_up
    return millis


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except InvalidQuantityError:
        return False
    return True


def _version(text: str) -> list[int | str]:
    """Return a list that sorts as the version; a release sorts after its pre-releases."""
    found = SEMVER.fullmatch(text)
    if found is None:
        raise SelectorError(f"{text!r} is no version of semver.org")
    numbers: list[int | str] = [int(found[1]), int(found[2]), int(found[3])]
    if not found[4]:
        return [*numbers, 1]
    numbers.append(0)
    for part in found[4][1:].split("."):
        numbers += [0, int(part)] if part.isdecimal() else [1, part]
    return numbers


def _order(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


@cache
def _environment() -> Any:
    from cel_expr_python import cel  # noqa: PLC0415  # the extra `local` may be absent
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings  # noqa: PLC0415

    kinds, overload = cel.Type, cel.Overload
    whole, text, flag, version = kinds.INT, kinds.STRING, kinds.BOOL, kinds.LIST

    def compared(name: str, result: Any, judge: Callable[[Any, Any], object]) -> Any:
        overloads = [
            overload(f"{name}_quantity", result, [whole, whole], True, judge),
            overload(
                f"{name}_semver",
                result,
                [version, version],
                True,
                lambda one, other: judge(list(one), list(other)),
            ),
        ]
        return cel.FunctionDecl(name, overloads)

    def single(name: str, result: Any, given: list[Any], is_member: bool, act: Any) -> Any:
        return cel.FunctionDecl(name, [overload(f"{name}_of", result, given, is_member, act)])

    functions = [
        single("quantity", whole, [text], False, _millis),
        single("isQuantity", flag, [text], False, _is_quantity),
        single("semver", version, [text], False, _version),
        single("isSemver", flag, [text], False, lambda each: bool(SEMVER.fullmatch(each))),
        compared("compareTo", whole, _order),
        compared("isGreaterThan", flag, lambda one, other: one > other),
        compared("isLessThan", flag, lambda one, other: one < other),
        single("asInteger", whole, [whole], True, lambda each: each // 1000),
        single("sign", whole, [whole], True, lambda each: _order(each, 0)),
        single("add", whole, [whole, whole], True, lambda one, other: one + other),
        single("sub", whole, [whole, whole], True, lambda one, other: one - other),
        single("major", whole, [version], True, lambda each: next(iter(each))),
        single("minor", whole, [version], True, lambda each: list(each)[1]),
        single("patch", whole, [version], True, lambda each: list(each)[2]),
    ]
    extensions = [
        ext_bindings.ExtBindings(),
        ext_optional.ExtOptional(),
        ext_strings.ExtStrings(),
    ]
    variables = {"device": kinds.MAP}
    return cel.NewEnv(variables=variables, extensions=extensions, functions=functions)
