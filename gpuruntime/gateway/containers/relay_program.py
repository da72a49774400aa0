"""The program that a forward runs in the container, to reach a port of the Pod's own loopback.

It connects its input and output to the port. On its errors it writes `relay` when it begins, and
`end N` when the far side has ended its half after N bytes: output and errors may overtake each
other. Anything else there says why it ended. An image without a program for it has exit code 127.

Python passes both half closes on. The nc of BusyBox passes the caller's on, and ends with the far
side. Other programs, such as socat, do not end with the far side, or end before it has answered.
"""

from typing import Final

BEGINS: Final = b"relay"
END: Final = b"end "
# A relay whose caller has gone would wait for ever for a far side that says nothing more.
_LAST_SECONDS: Final = 900
_PYTHON: Final = f"""\
import os, socket, sys, threading, time
def tell(words):
    os.write(2, words.encode() + b"\\n")
tell("relay")
try:
    far = socket.create_connection(("localhost", int(sys.argv[1])), 10)
except OSError as error:
    tell(str(error))
    os._exit(1)
far.settimeout(None)
heard = time.monotonic()
over = threading.Event()
def send():
    try:
        while data := os.read(0, 32768):
            far.sendall(data)
        far.shutdown(socket.SHUT_WR)
    except OSError as error:
        tell(str(error))
        os._exit(1)
    over.set()
    while time.monotonic() - heard < {_LAST_SECONDS}:
        time.sleep(5)
    os._exit(0)
threading.Thread(target=send, daemon=True).start()
count = 0
try:
    while data := far.recv(32768):
        heard = time.monotonic()
        count += len(data)
        while data:
            data = data[os.write(1, data):]
except OSError as error:
    tell(str(error))
    os._exit(1)
tell("end %d" % count)
over.wait()
os._exit(0)
"""
_CHOICE: Final = """\
if command -v python3 >/dev/null; then exec python3 -c "$2" "$1"; fi
if nc --help 2>&1 | grep -q BusyBox; then echo relay >&2; exec nc 127.0.0.1 "$1"; fi
exit 127
"""


def relay_command(port: int) -> tuple[str, ...]:
    return ("sh", "-c", _CHOICE, "relay", str(port), _PYTHON)
