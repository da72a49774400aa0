"""A rule that fails reports the subject that it could not judge; everything else is judged."""

from collections.abc import Iterator

import attrs
import msgspec
import pytest

from gpuruntime.audit.audit import suspicions
from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.index import SnapshotIndex
from gpuruntime.audit.mounts import Mount
from gpuruntime.audit.rule import Rule, Subject
from gpuruntime.audit.snapshot import Snapshot
from gpuruntime.models.kubernetes.metadata import Key
from tests.rooms.audit.values import active_unit, change, sound, stock_unit, unit_pod, with_status

NOBODY_READS_THIS = msgspec.Raw(b'{"template": {"spec": {"volumes": {"claimName": 7}}}}')


def failing(finding: Finding | None = None) -> Rule[Subject]:
    def judge(_: Subject, __: SnapshotIndex) -> Iterator[Finding]:
        if finding is not None:
            yield finding
        raise KeyError("owner")

    return Rule(name="r", description="", subjects=lambda _: (), judge=judge)


@pytest.mark.parametrize(
    ("subject", "names"),
    [
        (stock_unit(1), ["p-1"]),
        ([stock_unit(1), active_unit("demo", 1, operation="o", started=True)], ["p-1", "demo"]),
        (Mount(Key("runtime-instance", "data"), (unit_pod("demo"),)), ["unit-demo-1"]),
    ],
    ids=["object", "list", "mount"],
)
def test_a_failing_rule_reports_its_subject_the_fault_and_the_place(
    subject: Subject, names: list[str]
) -> None:
    (told,) = failing().findings(subject, SnapshotIndex(snapshot=Snapshot()))
    assert [each.name for each in told.objects] == names
    assert "KeyError: 'owner' (test_rule.py:" in told.message
    assert told.remedy
    assert told.allowed_seconds == 0


def test_findings_before_the_failure_of_a_rule_are_reported_separately() -> None:
    stock = stock_unit(1)
    found = Finding(objects=(reference_to(stock),), message="m", remedy="r")
    first, second = failing(found).findings(stock, SnapshotIndex(snapshot=Snapshot()))
    assert first == found
    assert first.version != second.version


def test_a_rule_that_fails_on_one_object_silences_no_other_rule_or_object() -> None:
    broken = change(sound(), "units", "next", lambda unit: with_status(unit, phase="Failed"))
    unread = change(
        broken, "deployments", "unit-demo", lambda held: attrs.evolve(held, spec=NOBODY_READS_THIS)
    )
    told = {each.breach.rule: each.breach for each in suspicions(unread)}
    assert set(told) == {"one-state", "storage-held"}
    assert "the rule cannot be judged of Deployment" in told["storage-held"].message
    assert [each.rule for each in suspicions(broken)] == ["one-state"]
