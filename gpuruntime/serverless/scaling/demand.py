"""How many workers a function needed lately: what was needed stays needed for its idle time."""


class Demand:
    """Moments are of one monotonic clock, and never go back."""

    def __init__(self, needed: int, at: float) -> None:
        """A new leader begins with the workers that it finds: they get their idle time anew."""
        # Falling needs, each with the last moment at which so many were needed.
        self._needs: list[tuple[int, float]] = [(needed, at)]

    @property
    def current(self) -> int:
        return self._needs[-1][0]

    def note(self, needed: int, at: float) -> None:
        while self._needs and self._needs[-1][0] <= needed:
            self._needs.pop()
        self._needs.append((needed, at))

    def most(self, at: float, *, within: float) -> int:
        """The current need, or the highest one of so many seconds. What is older is forgotten."""
        while len(self._needs) > 1 and self._needs[0][1] + within <= at:
            del self._needs[0]
        return self._needs[0][0]

    def falls_in(self, at: float, *, within: float) -> float | None:
        """Seconds until `most` is less without a further note; None where that never happens."""
        return self._needs[0][1] + within - at if len(self._needs) > 1 else None
