"""Rows of the table: measured values and their budgets."""

import attrs

# Machines differ from run to run by this factor. Only a value beyond it misses its budget.
TOLERANCE = 1.25


@attrs.frozen(kw_only=True, slots=True)
class Row:
    """A measured value. `at_most` and `at_least` are budgets; a row without one is for comparison.

    A counted value needs no tolerance, a timed value does.
    """

    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    tolerance: float = TOLERANCE

    @property
    def is_missed(self) -> bool:
        if self.at_most is not None and self.value > self.at_most * self.tolerance:
            return True
        return self.at_least is not None and self.value < self.at_least / self.tolerance

    @property
    def budget(self) -> str:
        if self.at_most is not None:
            return f"≤ {self.at_most:g}"
        return f"≥ {self.at_least:g}" if self.at_least is not None else ""

    @property
    def verdict(self) -> str:
        if self.at_most is None and self.at_least is None:
            return ""
        if self.is_missed:
            return "MISSED"
        is_above = self.at_most is not None and self.value > self.at_most
        is_below = self.at_least is not None and self.value < self.at_least
        return "within tolerance" if is_above or is_below else "ok"

    def __str__(self) -> str:
        measured = f"{self.name:<58} {self.value:>12,.3f} {self.unit:<10}"
        return f"{measured} {self.budget:<10} {self.verdict}"
