"""The entry of the program, as `gpuruntime` and as `python -m gpuruntime`."""

import sys

from gpuruntime.cli import main

if __name__ == "__main__":
    sys.exit(main())
