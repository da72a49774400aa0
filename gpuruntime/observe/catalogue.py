"""Every metric that the product has; what is not in here cannot be counted."""

from typing import Final

from gpuruntime.observe.control_metrics import CONTROL_METRICS
from gpuruntime.observe.function_metrics import FUNCTION_METRICS
from gpuruntime.observe.metric import Metric

CATALOGUE: Final[tuple[Metric, ...]] = (*CONTROL_METRICS, *FUNCTION_METRICS)
