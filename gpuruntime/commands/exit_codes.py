"""Exit codes of the commands, for scripts."""

from enum import IntEnum


class ExitCode(IntEnum):
    DONE = 0
    REFUSED = 1
    USAGE = 2
    NO_ANSWER = 3
    TIMED_OUT = 4
    # The codes of commands that otherwise end with the code of a program.
    NOT_RUN = 125
    CUT_OFF = 255
    # As shells report the signals INT and PIPE.
    INTERRUPTED = 130
    BROKEN_PIPE = 141
