"""`gpuruntime` and `python -m gpuruntime`: the program's entry."""

import sys

from gpuruntime.cli import main

if __name__ == "__main__":
    sys.exit(main())
