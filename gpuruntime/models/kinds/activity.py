"""The activity of units as a gateway's process reports it at `GET /activity`."""

from typing import Final

import attrs

from gpuruntime.models.kinds import labels

GATEWAY_APP: Final = "gpuruntime-gateway"
GATEWAY_SELECTOR: Final = f"{labels.APP_NAME}={GATEWAY_APP}"
ACTIVITY_PORT: Final = 8082
ACTIVITY_PATH: Final = "/activity"


@attrs.frozen(kw_only=True, slots=True)
class UnitActivity:
    """When a caller last sent bytes to the unit, and its open connections."""

    last: float
    open: int = 0


@attrs.frozen(kw_only=True, slots=True)
class ActivityReport:
    """Activity by the unit's uid since `since`; times are of the process's monotonic clock.

    `boot` differs for each process.
    """

    boot: str
    since: float
    now: float
    units: dict[str, UnitActivity] = attrs.field(factory=dict)
