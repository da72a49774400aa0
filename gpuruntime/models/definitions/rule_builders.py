"""Rules that several fields share, made for a field: of names, quantities, lists and paths."""

import re
from typing import Any, Final

from gpuruntime.models.definitions.schemas import Rule
from gpuruntime.models.definitions.texts import PATH_BELOW_ROOT
from gpuruntime.models.kubernetes.quantities import EXBIBYTE, InvalidQuantityError, parse_quantity

_KERNEL_PATHS: Final = ("/dev", "/proc", "/sys")


def dns_label(longest: int) -> Rule:
    pattern = f"^[a-z0-9]([-a-z0-9]{{0,{longest - 2}}}[a-z0-9])?$"
    return Rule(
        text=f"self.metadata.name.matches('{pattern}')",
        holds=lambda self, _: re.fullmatch(pattern, self["metadata"]["name"]) is not None,
        message=f"must be a DNS label of at most {longest} characters: lower case letters, "
        "digits and '-', a letter or digit at both ends",
        field=".metadata.name",
    )


def reserved(derived: str) -> Rule:
    def holds(self: Any, _: Any) -> bool:
        name = self["metadata"]["name"]
        return not name.startswith("op-") or re.fullmatch(derived, name) is not None

    return Rule(
        text=f"!self.metadata.name.startsWith('op-') || self.metadata.name.matches('{derived}')",
        holds=holds,
        message="must not begin with 'op-': such names are derived from an operationID",
        field=".metadata.name",
        reason="FieldValueForbidden",
    )


def mendable_quantity(name: str) -> Rule:
    """Return a rule that lets a quantity change only if it was not valid.

    An absent quantity takes the manager's default, so it cannot be added or removed later.
    """

    def holds(self: Any, old_self: Any) -> bool:
        before = old_self.get(name, "")
        return self.get(name, "") == before or (before != "" and not is_sound(before))

    old = f"oldSelf.{name}"
    return Rule(
        text=f"{text_of('self', name)} == {text_of('oldSelf', name)} || "
        f"({text_of('oldSelf', name)} != '' && !(isQuantity({old}) && "
        f"quantity({old}).isGreaterThan(quantity('0')) && "
        f"quantity({old}).isLessThan(quantity('1Ei'))))",
        holds=holds,
        message="cannot change once it is a positive quantity below 1Ei: create another object "
        "for another envelope",
        field=f".{name}",
    )


def unique(*names: str, message: str) -> Rule:
    same = " && ".join(f"a.{name} == b.{name}" for name in names)

    def holds(self: Any, _: Any) -> bool:
        keys = [tuple(item[name] for name in names) for item in self]
        return len(set(keys)) == len(keys)

    return Rule(
        text=f"self.all(a, self.exists_one(b, {same}))",
        holds=holds,
        message=message,  # the reason FieldValueDuplicate would hide it
    )


def off_kernel_paths(name: str) -> Rule:
    def holds(self: Any, _: Any) -> bool:
        path = self[name]
        return not any(path == kernel or path.startswith(f"{kernel}/") for kernel in _KERNEL_PATHS)

    return Rule(
        text=f"!{list(_KERNEL_PATHS)}.exists(p, self.{name} == p || "
        f"self.{name}.startsWith(p + '/'))",
        holds=holds,
        message=f"must be outside {', '.join(_KERNEL_PATHS)}: "
        "they belong to the container runtime",
        field=f".{name}",
        reason="FieldValueForbidden",
    )


def plain_path(name: str) -> Rule:
    return Rule(
        text=f"self.{name}.matches('{PATH_BELOW_ROOT}')",
        holds=lambda self, _: re.fullmatch(PATH_BELOW_ROOT, self[name]) is not None,
        message="must be an absolute path below '/', without '.', '..', ':' or a '/' at its end",
        field=f".{name}",
    )


def apart(name: str, message: str) -> Rule:
    def holds(self: Any, _: Any) -> bool:
        paths = [item[name] for item in self]
        return not any(below.startswith(f"{path}/") for path in paths for below in paths)

    return Rule(
        text=f"self.all(a, !self.exists(b, b.{name}.startsWith(a.{name} + '/')))",
        holds=holds,
        message=message,
    )


def text_of(holder: str, name: str) -> str:
    """Return an expression for the text of a member.

    `.?name.orValue('')` would hide the bound of the text from the estimate of the rule's cost.
    """
    return f"(has({holder}.{name}) ? {holder}.{name} : '')"


def is_sound(text: str) -> bool:
    try:
        return parse_quantity(text).is_positive_below(EXBIBYTE)
    except InvalidQuantityError:
        return False
