"""What the pages for whoever runs it list: exit codes, events of the log, failures to order."""

from gpuruntime.embedded.nodes.failures import Fault
from gpuruntime.roles.lifecycle import ExitCode
from tests.proofs.docs.pages import ROOT, SPAN, page_of

OPERATE = page_of("docs/operate.md")
DEV = page_of("docs/dev.md")


def test_every_exit_code_is_there() -> None:
    assert [int(row[0]) for row in OPERATE.table("exit code")] == list(ExitCode)


def test_the_events_worth_an_alert_are_events() -> None:
    source = "".join(path.read_text() for path in (ROOT / "gpuruntime").rglob("*.py"))
    (line,) = (
        each
        for each in OPERATE.prose.splitlines()
        if each.startswith("These events deserve an alert")
    )
    fields = {"rule", "remedy"}
    events = [each for each in SPAN.findall(line) if each not in fields]
    assert events
    assert [each for each in events if f'"{each}"' not in source] == []


def test_every_failure_to_order_is_there() -> None:
    shown = {row[0].strip("`").partition("=")[0] for row in DEV.table("value")}
    assert shown == {*Fault}
