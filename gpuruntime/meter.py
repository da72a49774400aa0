"""The Protocol by which every room counts and measures."""

from typing import Protocol


class Meter(Protocol):
    """Names are stable and labels are bounded, because alert rules depend on both."""

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None: ...

    def gauge(self, name: str, value: float, /, **labels: str) -> None: ...

    def observe(self, name: str, seconds: float, /, **labels: str) -> None: ...


class NullMeter:
    """A meter without a registry, for tests and one-off commands."""

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None:
        pass

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        pass

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        pass
