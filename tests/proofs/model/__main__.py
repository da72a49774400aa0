"""Explore every scope, then leave out one clause at a time; `--traces` prints shortest traces."""

import gc
import sys
from collections.abc import Sequence

from tests.proofs.model.necessity import NEEDS, without
from tests.proofs.model.scopes import SCOPES
from tests.proofs.model.search import Report, explore


def main(arguments: Sequence[str]) -> int:
    gc.disable()  # no object here has cycles, and a search keeps every state
    is_sound = _explore_all()
    is_needed = _leave_out_each(shows_traces="--traces" in arguments)
    return 0 if is_sound and is_needed else 1


def _explore_all() -> bool:
    is_sound = True
    for scope in SCOPES:
        report = explore(scope)
        extent = "complete" if report.is_complete else "stopped at the limit"
        _print_line(f"{scope.title:<26}{_size(report)}, {extent}")
        for breach, trace in report.found.items():
            _print_trace(breach, trace)
        is_sound = is_sound and report.is_complete and not report.found
    return is_sound


def _leave_out_each(*, shows_traces: bool) -> bool:
    is_needed = True
    for clause, need in NEEDS.items():
        report = without(clause)
        _print_line(f"\nwithout: {clause}\n  {need.scope}: {_size(report)}")
        if need.breach not in report.found:
            _print_line("  nothing breaks")
            is_needed = False
        elif shows_traces:
            _print_trace(need.breach, report.found[need.breach])
        else:
            _print_line(f"  {need.breach}, in {len(report.found[need.breach])} steps")
    return is_needed


def _size(report: Report) -> str:
    return f"{report.states:>6} states, {report.depth:>2} steps deep, {report.seconds:>4.1f} s"


def _print_trace(breach: str, trace: Sequence[str]) -> None:
    _print_line(f"  {breach}:")
    for number, step in enumerate(trace, 1):
        _print_line(f"  {number:>3}. {step}")


def _print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
