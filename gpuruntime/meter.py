"""The small Protocol through which every room counts and times what it does."""

from typing import Protocol


class Meter(Protocol):
    """Names are stable and labels are bounded: both are read by alert rules."""

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None: ...

    def gauge(self, name: str, value: float, /, **labels: str) -> None: ...

    def observe(self, name: str, seconds: float, /, **labels: str) -> None: ...


class NullMeter:
    """For whoever has no registry: tests and one-off commands."""

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None:
        pass

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        pass

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        pass
