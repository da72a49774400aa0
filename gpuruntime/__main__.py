"""`gpuruntime` and `python -m gpuruntime`: the program's entry."""


def main() -> int:
    return 0
