"""Plant mutations one at a time, and print which of them are found, and how soon.

`python -m tests.proofs.simulation.mutations` tries all of them in two processes, until all are
found or the time is up. The exit code is 1 unless each is found.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.proofs.simulation.mutations.campaign import Campaign, Processes
from tests.proofs.simulation.mutations.catalogue import MUTATIONS
from tests.proofs.simulation.mutations.results import Row, all_found, as_json, summary_of, table

PROCESSES: Final = 2
MINUTES: Final = 60.0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.simulation.mutations", description=__doc__
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[""],
        metavar="NAME",
        help="only mutations with one of these texts in their name",
    )
    parser.add_argument("--minutes", type=float, default=MINUTES, help="the time limit")
    parser.add_argument(
        "--processes", type=int, default=PROCESSES, help="the number of concurrent processes"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the table to this file, too"
    )
    given = parser.parse_args(arguments)
    chosen = [each for each in MUTATIONS if any(name in each.name for name in given.only)]
    if not chosen:
        parser.error(f"no mutation has such a name: {given.only}")
    rows: dict[str, Row] = {}

    def on_row(row: Row) -> None:
        """Print the row and write the table, so that an interrupted campaign keeps its results."""
        rows[row.name] = row
        _print_line(summary_of(row))
        if given.json:
            given.json.write_text(as_json(rows.values()), encoding="utf-8")

    processes = Processes(time.monotonic() + 60.0 * given.minutes)
    campaign = Campaign(judge=processes.judge, on_row=on_row, processes=given.processes)
    judged = campaign.run(chosen)
    for line in table(judged):
        _print_line(line)
    if given.json:
        given.json.write_text(as_json(judged), encoding="utf-8")
    return 0 if all_found(judged) else 1


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
