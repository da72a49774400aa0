"""Fields and checks that several requests share.

UNSET distinguishes a member that a change leaves out from one that it clears with null.
"""

from enum import Enum
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from gpuruntime.models.definitions.schemas import Check, Schema
from gpuruntime.models.definitions.texts import Name, QuantityText
from gpuruntime.models.kinds.units import MOST_GPUS
from gpuruntime.models.kubernetes.quantities import EXBIBYTE, InvalidQuantityError, parse_quantity

ValueT = TypeVar("ValueT")


class Unset(Enum):
    """The type whose only value is UNSET."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
# null clears the field; UNSET leaves it as it is.
Given: TypeAlias = ValueT | Unset | None


def _reserved_operation(text: Any) -> str:
    if isinstance(text, str) and text.startswith("gpuruntime:"):
        return "must not begin with 'gpuruntime:': such operations are the platform's own"
    return ""


def _reserved_name(text: Any) -> str:
    if isinstance(text, str) and text.startswith("op-"):
        return "must not begin with 'op-': such names are derived from an operationID"
    return ""


def _bad_quantity(text: Any) -> str:
    if not isinstance(text, str):
        return ""
    try:
        is_sound = parse_quantity(text).is_positive_below(EXBIBYTE)
    except InvalidQuantityError as error:
        return str(error)
    return "" if is_sound else f"quantity {text!r} must be above 0 and below 1Ei"


OperationID: TypeAlias = Annotated[
    str,
    Schema(
        minLength=1,
        maxLength=128,
        pattern="^[A-Za-z0-9._:-]+$",
        description="Identifies this request; a retry gets an answer and has no further effect.",
    ),
    Check(_reserved_operation),
]
ChosenName: TypeAlias = Annotated[
    Name, Schema(description="Derived from the operationID if absent."), Check(_reserved_name)
]
# The check is stricter than the pattern, which is for readers of the API document.
PositiveQuantity: TypeAlias = Annotated[
    QuantityText,
    Schema(minLength=1),
    Check(_bad_quantity),
    Schema(pattern=r"^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$"),
]
Gpus: TypeAlias = Annotated[int, Schema(minimum=0, maximum=MOST_GPUS)]
