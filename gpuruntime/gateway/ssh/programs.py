"""The programs that SSH runs in containers: shells, commands, `sftp-server`, relays and `kill`."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from gpuruntime.gateway.ssh.container import Program

# With it in its environment, a session's processes are found again to be signalled.
SESSION: Final = "GPURUNTIME_SSH_SESSION"
MOST_VARIABLES: Final = 20
_LONGEST_VALUE: Final = 256
_ALLOWED: Final = re.compile(rb"LANG|LC_[A-Z_]{1,32}|TERM|COLORTERM")
_TERMINAL: Final = re.compile(r"[A-Za-z0-9._+-]{1,64}")
# Their names as SSH sends them (RFC 4254, 6.10), which are those of `kill -s`.
SIGNALS: Final = frozenset(
    {"ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM"}
    | {"USR1", "USR2"}
)

# Variables come before `--`; a session begins at its home, as at any SSH server.
_BEGINNING: Final = 'while [ "$1" != -- ]; do export "$1"; shift; done; shift; cd 2>/dev/null; '
_SHELL: Final = "$(command -v bash || echo sh)"
_LOGIN: Final = f"{_BEGINNING}exec {_SHELL} -l"
# containerd ends the input of a program that closes its output, as `cat >file` does. The first
# shell keeps it open, and no program that outlives the command does.
_COMMAND: Final = f'{_BEGINNING}{_SHELL} -c "$1"; exit $?'

# Processes that left the session's group are found as well: they have inherited the variable.
_KILL: Final = """\
for each in /proc/[0-9]*; do
  tr '\\0' '\\n' <"$each/environ" 2>/dev/null | grep -qx "$2" && kill -s "$1" "${each#/proc/}"
done 2>/dev/null
:
"""
_FIND_SFTP_SERVER: Final = """\
for each in /usr/lib/openssh /usr/lib/ssh /usr/libexec/openssh /usr/libexec; do
  if [ -x "$each/sftp-server" ]; then echo "$each/sftp-server"; exit; fi
done
command -v sftp-server || :
"""
# Each ends with its far side, and passes the caller's half close on.
_UNIX_RELAY: Final = """\
import os, socket, sys, threading
far = socket.socket(socket.AF_UNIX)
far.connect(sys.argv[1])
def send():
    while True:
        data = os.read(0, 32768)
        if not data:
            break
        far.sendall(data)
    far.shutdown(socket.SHUT_WR)
threading.Thread(target=send, daemon=True).start()
while True:
    data = far.recv(32768)
    if not data:
        os._exit(0)
    while data:
        data = data[os.write(1, data):]
"""
_TO_SOCKET: Final = """\
if [ ! -S "$1" ]; then echo "$1 is no socket" >&2; exit 1; fi
if command -v python3 >/dev/null; then exec python3 -c "$2" "$1"; fi
if command -v socat >/dev/null; then exec socat -t 900 - "UNIX-CONNECT:$3"; fi
if nc -h 2>&1 | grep -q -e '-U'; then exec nc -U "$1"; fi
echo "forwards to sockets need python3, socat or nc -U in the image" >&2
exit 127
"""


@attrs.frozen(kw_only=True, slots=True)
class SessionRequest:
    """A session as a caller asked for it; `command` is None for a shell.

    `size` is columns and rows of the terminal, or None without either.
    """

    id: str
    command: str | None
    variables: Mapping[bytes, bytes]
    terminal: str | None
    size: tuple[int, int] | None


def session_program(request: SessionRequest) -> Program:
    exports = (f"{SESSION}={request.id}", *_exports(request))
    script = _LOGIN if request.command is None else _COMMAND
    command = () if request.command is None else (request.command,)
    return Program(
        arguments=("sh", "-c", _sized(request) + script, "sh", *exports, "--", *command),
        has_input=True,
        has_terminal=request.terminal is not None,
    )


def _sized(request: SessionRequest) -> str:
    """Return the command that sets the size first: the cluster sets one only later."""
    if request.terminal is None or request.size is None:
        return ""
    columns, rows = request.size
    return f"stty cols {columns} rows {rows} 2>/dev/null; "


def _exports(request: SessionRequest) -> Iterator[str]:
    if request.terminal is not None and _TERMINAL.fullmatch(request.terminal):
        yield f"TERM={request.terminal}"
    allowed = [name for name in request.variables if _ALLOWED.fullmatch(name)]
    for name in allowed[:MOST_VARIABLES]:
        value = request.variables[name]
        is_terminal = name == b"TERM" and request.terminal is not None
        if not is_terminal and len(value) <= _LONGEST_VALUE and value.isascii():
            yield f"{name.decode()}={value.decode()}"


def kill_program(session: str, signal: str) -> Program:
    return Program(arguments=("sh", "-c", _KILL, "sh", signal, f"{SESSION}={session}"))


FIND_SFTP_SERVER: Final = Program(arguments=("sh", "-c", _FIND_SFTP_SERVER))


def sftp_server_program(path: str) -> Program:
    script = 'cd 2>/dev/null; exec "$1"'
    return Program(arguments=("sh", "-c", script, "sh", path), has_input=True)


def socket_relay_program(path: str) -> Program:
    escaped = re.sub(r"([\\,:!\"'(){}\[\]])", r"\\\1", path)
    arguments = ("sh", "-c", _TO_SOCKET, "sh", path, _UNIX_RELAY, escaped)
    return Program(arguments=arguments, has_input=True)
