"""Runs the command of its arguments with its stdin as the terminal that controls it.

It leads a session when it starts. It runs by itself, without the project on its path.
"""

import fcntl
import os
import signal
import sys
import termios

NOT_FOUND = 127  # as a shell says
# Python ignores some of them, and a program that was started in the background the others.
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ)

if __name__ == "__main__":
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    try:
        os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - the command that a caller asked for
    except OSError as error:
        sys.stderr.write(f"{sys.argv[1]}: {error.strerror}\n")
        sys.exit(NOT_FOUND)
