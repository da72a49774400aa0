"""Requests for tickets: what a caller wants to do with a unit, and for how long."""

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import attrs

from gpuruntime.models.definitions.schemas import Check, Schema


class Use(StrEnum):
    """A way to reach a unit that a ticket allows."""

    HTTP = "http"
    EXEC = "exec"
    FORWARD = "forward"
    SSH = "ssh"


FEWEST_SECONDS = 30
MOST_SECONDS = 43_200


def _fault_of_uses(uses: Any) -> str:
    if not isinstance(uses, list):
        return ""
    if not uses:
        return f"must name at least one of {', '.join(Use)}"
    return "" if len({repr(each) for each in uses}) == len(uses) else "names a use twice"


Uses: TypeAlias = Annotated[tuple[Use, ...], Schema(maxItems=len(Use)), Check(_fault_of_uses)]
PortOrName: TypeAlias = Annotated[
    str,
    Schema(
        maxLength=15,
        pattern="^[-a-z0-9]*$",
        description="The name or the number of a port; needed for http, and binding for forward.",
    ),
]


@attrs.frozen(kw_only=True, slots=True)
class CreateTicket:
    """A ticket for some uses of one unit."""

    uses: Uses
    port: PortOrName = ""
    seconds: Annotated[int, Schema(minimum=FEWEST_SECONDS, maximum=MOST_SECONDS)] = 900
    label: Annotated[
        str, Schema(maxLength=63, pattern="^[ -~]*$", description="For the log of the API.")
    ] = ""
