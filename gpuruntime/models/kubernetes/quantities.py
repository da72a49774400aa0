"""Exact quantities as the API server reads them, such as `500m`, `16Gi` and `1e3`.

Every quantity here is also one to CEL's `isQuantity`, with the same value. Three oddities that
Kubernetes accepts are rejected here: numbers without a digit (`+`, `Ki`), exponents above 999, and
texts of more than 128 characters.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final, Self

import attrs

from gpuruntime.errors import GpuRuntimeError

_MAX_LENGTH = 128
_MAX_EXPONENT = 999
_NANO_EXPONENT = -9
_NANOS = 1_000_000_000
_MILLI_NANOS = 1_000_000
_MAX_BINARY_NANOS = (2**63 - 1) * _NANOS

_NUMBER = re.compile(r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?")
_EXPONENT = re.compile(r"[eE](?P<power>[+-]?[0-9]+)")
_DECIMAL_POWERS = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY_POWERS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES = {power: suffix for suffix, power in _DECIMAL_POWERS.items()}
_BINARY_SUFFIXES = ("", *_BINARY_POWERS)


class InvalidQuantityError(GpuRuntimeError):
    """The text is not a quantity; the message quotes it and says what to write."""


class Format(StrEnum):
    """The suffixes with which a quantity is printed; they are those with which it was written."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


@attrs.frozen(kw_only=True, slots=True, order=True)
class Quantity:
    """An exact number of billionths; `1Gi` and `1073741824` are equal and hash alike."""

    nanos: int
    format: Format = attrs.field(default=Format.DECIMAL, eq=False, order=False)

    @classmethod
    def of_bytes(cls, count: int) -> Self:
        return cls(nanos=count * _NANOS, format=Format.BINARY)

    @property
    def rounded_up(self) -> int:
        """Return whole units, such as bytes, cores or devices."""
        return -(-self.nanos // _NANOS)

    @property
    def millis_rounded_up(self) -> int:
        """Return thousandths, as the scheduler counts cpu."""
        return -(-self.nanos * 1000 // _NANOS)

    @property
    def in_whole_millis(self) -> Self:
        """Return the quantity as a server stores it, rounded away from zero to a thousandth."""
        millis = -(-abs(self.nanos) // _MILLI_NANOS)
        return attrs.evolve(self, nanos=(millis if self.nanos >= 0 else -millis) * _MILLI_NANOS)

    def is_positive_below(self, limit: "Quantity") -> bool:
        return 0 < self.nanos < limit.nanos

    def __str__(self) -> str:
        """Return the canonical form, without a fraction and with the largest exact suffix."""
        is_whole = self.nanos % _NANOS == 0
        if self.format is Format.BINARY and is_whole and abs(self.nanos) >= 1024 * _NANOS:
            return self._in_binary_suffixes()
        return self._in_decimal_suffixes()

    def _in_binary_suffixes(self) -> str:
        number, index = self.nanos // _NANOS, 0
        while number % 1024 == 0 and index < len(_BINARY_SUFFIXES) - 1:
            number, index = number // 1024, index + 1
        return f"{number}{_BINARY_SUFFIXES[index]}"

    def _in_decimal_suffixes(self) -> str:
        if not self.nanos:
            return "0"
        number, power = self.nanos, _NANO_EXPONENT
        while number % 1000 == 0:
            number, power = number // 1000, power + 3
        if self.format is Format.EXPONENT or power not in _DECIMAL_SUFFIXES:
            return f"{number}e{power}" if power else str(number)
        return f"{number}{_DECIMAL_SUFFIXES[power]}"


EXBIBYTE: Final = Quantity.of_bytes(2**60)


@lru_cache(maxsize=4096)  # the same few texts come in every object, and drift compares them
def parse_quantity(text: str) -> Quantity:
    """Return the quantity, rounded away from zero to a billionth, as the API server does."""
    if len(text) > _MAX_LENGTH:
        raise InvalidQuantityError(
            f"quantity {text[:_MAX_LENGTH]!r}… is longer than {_MAX_LENGTH} characters"
        )
    number = _NUMBER.match(text)
    if number is None or not (number["whole"] or number["fraction"]):
        raise InvalidQuantityError(
            f"quantity {text!r} has no number in front: write one such as 500m, 2 or 16Gi"
        )
    suffix = text[number.end() :]
    fraction = number["fraction"] or ""
    digits = int(number["whole"] + fraction)
    sign = -1 if number["sign"] == "-" else 1
    if suffix in _BINARY_POWERS:
        nanos = _scaled(digits << _BINARY_POWERS[suffix], -len(fraction) - _NANO_EXPONENT)
        return Quantity(nanos=sign * min(nanos, _MAX_BINARY_NANOS), format=Format.BINARY)
    power, written = _decimal_power(text, suffix)
    nanos = _scaled(digits, power - len(fraction) - _NANO_EXPONENT)
    return Quantity(nanos=sign * nanos, format=written)


def count_of(amount: str | int | float) -> int:
    """Return a count of devices, rounded up; an absent or malformed quantity counts as 0."""
    try:
        return parse_quantity(str(amount)).rounded_up if amount else 0
    except InvalidQuantityError:
        return 0


def is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except InvalidQuantityError:
        return False
    return True


def _decimal_power(text: str, suffix: str) -> tuple[int, Format]:
    if suffix in _DECIMAL_POWERS:
        return _DECIMAL_POWERS[suffix], Format.DECIMAL
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None:
        raise InvalidQuantityError(
            f"quantity {text!r} has the unknown suffix {suffix!r}: use one of "
            f"{' '.join(filter(None, _DECIMAL_POWERS))} or {' '.join(_BINARY_POWERS)}"
        )
    power = int(exponent["power"])
    if power > _MAX_EXPONENT:
        raise InvalidQuantityError(
            f"quantity {text!r} has an exponent beyond {_MAX_EXPONENT}: nothing is that large"
        )
    # No text is long enough to show a digit that far behind the point.
    return max(power, -_MAX_EXPONENT), Format.EXPONENT


def _scaled(number: int, power: int) -> int:
    """Return the number times ten to the power, rounded up."""
    factor: int = 10 ** abs(power)
    return number * factor if power >= 0 else -(-number // factor)
