"""Run seeds, and print each unit that was called idle although it was active."""

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Sequence

import structlog

from tests.proofs.activity.run import run_seed


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.activity", description=__doc__)
    parser.add_argument("--seeds", default="0-999", help="a range of seeds, such as 0-999")
    first, _, last = parser.parse_args(arguments).seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    called_idle, looks, longest, faults = 0, 0, 0.0, Counter[str]()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    for seed in seeds:
        run = run_seed(seed)
        called_idle += len(run.breaches)
        looks += run.looks
        faults += run.faults
        longest = max(longest, *run.longest.values())
        for breach in run.breaches[:1]:
            sys.stdout.write(f"seed {seed}: {breach}\n")
    told = ", ".join(f"{count} {name}" for name, count in sorted(faults.items()))
    sys.stdout.write(
        f"{called_idle} active units called idle: {len(seeds)} seeds, {looks} looks; {told}; "
        f"the longest idle time was {longest:.0f} s\n"
    )
    return 1 if called_idle else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
