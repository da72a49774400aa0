"""Every rule judges arbitrary objects without failing."""

from typing import Any

import attrs
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.audit.audit import suspicions
from gpuruntime.audit.rule import NOT_JUDGED
from gpuruntime.audit.snapshot import Snapshot
from tests.rooms.audit.arbitrary_writes import DEPLOYMENT_SPEC, SCRIBBLES, scribble
from tests.rooms.audit.functions import FIRST, serving
from tests.rooms.audit.values import change


def scribbled_over(snapshot: Snapshot, drawn: list[Any]) -> Snapshot:
    for each in drawn:
        snapshot = scribble(snapshot, each)
    return snapshot


def assert_judged(snapshot: Snapshot) -> None:
    for each in suspicions(snapshot):
        assert each.finding.version != NOT_JUDGED, each.breach.message
        assert each.breach.message
        assert each.breach.remedy
        assert each.breach.objects


@given(drawn=st.lists(SCRIBBLES, min_size=1, max_size=4))
def test_any_objects_are_judged(drawn: list[Any]) -> None:
    assert_judged(scribbled_over(serving(), drawn))


@given(
    name=st.sampled_from(("unit-demo", f"unit-{FIRST}")),
    spec=DEPLOYMENT_SPEC,
    drawn=st.lists(SCRIBBLES, max_size=1),
)
def test_any_deployment_is_judged(name: str, spec: msgspec.Raw, drawn: list[Any]) -> None:
    snapshot = change(serving(), "deployments", name, lambda held: attrs.evolve(held, spec=spec))
    assert_judged(scribbled_over(snapshot, drawn))
