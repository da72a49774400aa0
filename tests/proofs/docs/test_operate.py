"""The pages for operators: their lists of exit codes, log events and failures to request."""

from gpuruntime.embedded.nodes.failures import Fault
from gpuruntime.roles.lifecycle import ExitCode
from tests.proofs.docs.pages import ROOT, SPAN, page_of

OPERATE = page_of("docs/operate.md")
DEV = page_of("docs/dev.md")


def test_every_exit_code_is_listed() -> None:
    assert [int(row[0]) for row in OPERATE.table("exit code")] == list(ExitCode)


def test_the_events_that_deserve_an_alert_exist() -> None:
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


def test_every_simulated_failure_is_listed() -> None:
    shown = {row[0].strip("`").partition("=")[0] for row in DEV.table("value")}
    assert shown == {*Fault}
