import attrs
import pytest

from gpuruntime.settings.options import options_of
from gpuruntime.strict.durations import Seconds


@attrs.frozen(kw_only=True, slots=True)
class Section:
    drain: Seconds = Seconds(3.0)
    headTimeout: Seconds = Seconds(4.0)
    blockedEgressCIDRs: tuple[str, ...] = ("10.0.0.0/8",)
    maxSize: str = "1Gi"

    @property
    def most_bytes(self) -> int:
        return 2**30


@attrs.frozen(kw_only=True, slots=True)
class RoomOptions:
    name: str
    drain_seconds: float
    head_seconds: float
    blocked_egress_cidrs: tuple[str, ...]
    most_bytes: int
    probe_seconds: float = 5.0


def test_a_field_is_filled_by_the_key_or_the_property_of_its_name() -> None:
    assert options_of(RoomOptions, Section(), name="a") == RoomOptions(
        name="a",
        drain_seconds=3.0,
        head_seconds=4.0,
        blocked_egress_cidrs=("10.0.0.0/8",),
        most_bytes=2**30,
        probe_seconds=5.0,
    )


def test_a_given_value_comes_before_the_key() -> None:
    assert options_of(RoomOptions, Section(), name="a", head_seconds=9.0).head_seconds == 9.0


def test_a_field_without_a_key_and_a_default_is_an_error() -> None:
    with pytest.raises(TypeError, match="name"):
        options_of(RoomOptions, Section())


def test_a_default_beside_a_key_is_an_error() -> None:
    @attrs.frozen(kw_only=True, slots=True)
    class Doubled:
        drain_seconds: float = 8.0

    with pytest.raises(TypeError, match=r"Doubled\.drain_seconds: its default is the key's"):
        options_of(Doubled, Section())
