"""Send rounds of hostile input to an SSH server of the gateway, and count the outcomes."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.proofs.hostile_ssh.campaign import run_campaign


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proofs.hostile_ssh", description=__doc__
    )
    parser.add_argument("--rounds", type=int, default=1000, help="how often each kind is tried")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    logging.getLogger("asyncssh").setLevel(logging.CRITICAL)
    with TemporaryDirectory() as home:
        found = asyncio.run(run_campaign(Path(home), given.rounds, given.seed))
    sys.stdout.write(found.table)
    sys.stdout.write("".join(f"{fault}\n" for fault in found.faults))
    sys.stdout.write(f"{found.counts.total()} pieces of input, {len(found.faults)} faults\n")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
