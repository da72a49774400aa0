"""What the program's commands end with, for scripts."""

from enum import IntEnum


class ExitCode(IntEnum):
    DONE = 0
    REFUSED = 1
    USAGE = 2
    NO_ANSWER = 3
    IN_VAIN = 4
    # As shells count the signals INT and PIPE.
    INTERRUPTED = 130
    UNHEARD = 141
