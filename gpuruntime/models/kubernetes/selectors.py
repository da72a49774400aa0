"""Label and field selectors in the API server's syntax, parsed once and matched often."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import attrs

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.models.kubernetes.names import is_label_key, is_label_value

_INTEGER = re.compile(r"[0-9]{1,63}")
_GREATEST_INTEGER: Final = 2**63 - 1
_REQUIREMENT = re.compile(
    r"""\s*(?:
        (?P<absent>!)\s*(?P<absent_key>[^\s!=<>(),]+)
      | (?P<set_key>[^\s!=<>(),]+)\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\)
      | (?P<compared_key>[^\s!=<>(),]+)\s*(?P<compared>[<>])\s*(?P<bound>[^\s,]*)
      | (?P<equal_key>[^\s!=<>(),]+)\s*(?P<equal>==|=|!=)\s*(?P<value>[^\s!=<>(),]*)
      | (?P<present_key>[^\s!=<>(),]+)
    )\s*(?:,|$)""",
    re.VERBOSE,
)


class InvalidSelectorError(GpuRuntimeError):
    """The text is not a selector; the message quotes the part that cannot be parsed."""


class Operator(StrEnum):
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER = ">"
    LESS = "<"


@attrs.frozen(kw_only=True, slots=True)
class Requirement:
    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels match; `notin` and `!=` match an absent label."""
        present = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return present in self.values
            case Operator.NOT_IN:
                return present not in self.values
            case Operator.EXISTS:
                return present is not None
            case Operator.DOES_NOT_EXIST:
                return present is None
            case Operator.GREATER | Operator.LESS:
                return self._compares(present)

    def _compares(self, present: str | None) -> bool:
        (bound,) = self.values
        if present is None or not _is_integer(present):
            return False
        if self.operator is Operator.GREATER:
            return int(present) > int(bound)
        return int(present) < int(bound)


@attrs.frozen(slots=True)
class LabelSelector:
    """Matches labels that meet every requirement; without requirements, it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(each.matches(labels) for each in self.requirements)


@attrs.frozen(kw_only=True, slots=True)
class FieldRequirement:
    field: str
    value: str
    is_equal: bool

    def matches(self, fields: Mapping[str, str]) -> bool:
        return (fields.get(self.field, "") == self.value) is self.is_equal


@attrs.frozen(slots=True)
class FieldSelector:
    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all(each.matches(fields) for each in self.requirements)


def parse_label_selector(text: str) -> LabelSelector:
    """Parse `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`; the empty text matches everything."""
    requirements = []
    position = 0
    while position < len(text.rstrip()):
        found = _REQUIREMENT.match(text, position)
        if found is None:
            raise InvalidSelectorError(
                f"unable to parse requirement: {text[position:].strip()!r} in selector {text!r}"
            )
        requirements.append(_requirement(found))
        position = found.end()
    if text.rstrip().endswith(","):
        raise InvalidSelectorError(
            f"selector {text!r} ends with a comma: a requirement is missing"
        )
    return LabelSelector(tuple(requirements))


def parse_field_selector(text: str) -> FieldSelector:
    """Parse `metadata.name=a,status.phase!=Running`; the empty text matches everything."""
    return FieldSelector(tuple(_field_requirement(part) for part in text.split(",") if part))


def selector_of(
    match_labels: Mapping[str, str], match_expressions: tuple[Requirement, ...] = ()
) -> LabelSelector:
    """Return the selector that an object writes as equal labels and expressions."""
    equal = (
        Requirement(key=key, operator=Operator.IN, values=frozenset({value}))
        for key, value in match_labels.items()
    )
    return LabelSelector((*equal, *match_expressions))


def requirement_of(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    """Return the requirement of an object's expression: In, NotIn, Exists, DoesNotExist."""
    operators = {
        "In": Operator.IN,
        "NotIn": Operator.NOT_IN,
        "Exists": Operator.EXISTS,
        "DoesNotExist": Operator.DOES_NOT_EXIST,
    }
    if operator not in operators:
        raise InvalidSelectorError(f"{operator!r} is not one of {', '.join(operators)}")
    return _checked(key, operators[operator], values)


def _requirement(found: re.Match[str]) -> Requirement:
    groups = found.groupdict()
    if groups["absent_key"]:
        return _checked(groups["absent_key"], Operator.DOES_NOT_EXIST, ())
    if groups["set_key"]:
        values = tuple(value.strip() for value in groups["values"].split(","))
        return _checked(groups["set_key"], Operator(groups["set"]), values)
    if groups["compared_key"]:
        return _checked(groups["compared_key"], Operator(groups["compared"]), (groups["bound"],))
    if groups["equal_key"]:
        operator = Operator.NOT_IN if groups["equal"] == "!=" else Operator.IN
        return _checked(groups["equal_key"], operator, (groups["value"],))
    return _checked(groups["present_key"], Operator.EXISTS, ())


def _checked(key: str, operator: Operator, values: tuple[str, ...]) -> Requirement:
    if not is_label_key(key):
        raise InvalidSelectorError(f"{key!r} is no label key")
    if bool(values) is (operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST)):
        raise InvalidSelectorError(
            f"{key}: {operator} {'takes no values' if values else 'needs a value'}"
        )
    is_compared = operator in (Operator.GREATER, Operator.LESS)
    for value in values:
        if not is_label_value(value):
            raise InvalidSelectorError(f"{key}: {value!r} is no label value")
        if is_compared and not _is_integer(value):
            raise InvalidSelectorError(f"{key}: {value!r} is no integer to compare with")
    return Requirement(key=key, operator=operator, values=frozenset(values))


def _is_integer(label_value: str) -> bool:
    """Return whether the value is an unsigned integer that fits the server's 64 bits."""
    return bool(_INTEGER.fullmatch(label_value)) and int(label_value) <= _GREATEST_INTEGER


def _field_requirement(text: str) -> FieldRequirement:
    for sign in ("!=", "==", "="):
        field, found, value = text.partition(sign)
        if found:
            return FieldRequirement(field=field, value=value, is_equal=sign != "!=")
    raise InvalidSelectorError(
        f"invalid selector: {text!r}; can't understand {text!r}: write field=value or field!=value"
    )
