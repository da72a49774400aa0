"""Run seeds, and print each unit that was called idle although it was active."""

import argparse
import logging
import sys
from collections.abc import Sequence

import structlog

from tests.proofs.activity.run import run_seed


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.activity", description=__doc__)
    parser.add_argument("--seeds", default="0-999", help="a range of seeds, such as 0-999")
    first, _, last = parser.parse_args(arguments).seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    failed, longest = 0, 0.0
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    for seed in seeds:
        run = run_seed(seed)
        failed += bool(run.breaches)
        longest = max(longest, *run.longest.values())
        for breach in run.breaches[:1]:
            sys.stdout.write(f"seed {seed}: {breach}\n")
    sys.stdout.write(
        f"{len(seeds)} seeds, {failed} failed; the longest idle time was {longest:.0f} s\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
