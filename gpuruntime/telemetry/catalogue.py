"""Every metric that the product has; what is not in here cannot be counted."""

from typing import Final

from gpuruntime.telemetry.control_metrics import CONTROL_METRICS
from gpuruntime.telemetry.function_metrics import FUNCTION_METRICS
from gpuruntime.telemetry.metric import Metric

CATALOGUE: Final[tuple[Metric, ...]] = (*CONTROL_METRICS, *FUNCTION_METRICS)
