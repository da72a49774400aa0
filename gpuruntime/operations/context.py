"""The dependencies that the use cases of one process share."""

from collections.abc import Callable
from datetime import datetime
from random import Random

import attrs

from gpuruntime.kube.client import Client
from gpuruntime.meter import Meter, NullMeter
from gpuruntime.operations.lookup.caches import Caches
from gpuruntime.operations.options import Options


@attrs.frozen(kw_only=True, slots=True)
class OperationContext:
    """The dependencies of all use cases of a process."""

    client: Client
    caches: Caches
    options: Options
    now: Callable[[], datetime]
    rng: Random
    meter: Meter = NullMeter()
