"""Token buckets, one for each key and never more than a fixed number of them."""

from collections import OrderedDict
from collections.abc import Hashable

import attrs


@attrs.define(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class TokenBuckets:
    """The bucket unused for longest makes room for a new one, which starts full."""

    def __init__(self, *, burst: int, seconds_per_token: float, capacity: int) -> None:
        self._burst = burst
        self._seconds_per_token = seconds_per_token
        self._capacity = capacity
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def take(self, key: Hashable, moment: float) -> bool:
        """False when there is no token left; the moments are of one monotonic clock."""
        bucket = self._buckets.setdefault(key, _Bucket(self._burst, moment))
        self._buckets.move_to_end(key)
        if len(self._buckets) > self._capacity:
            self._buckets.popitem(last=False)
        gained = (moment - bucket.filled_at) / self._seconds_per_token
        bucket.tokens = min(self._burst, bucket.tokens + gained)
        bucket.filled_at = moment
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True
