"""Programs of units that callers reach, and far sides that end their connections in some way."""

from typing import Final

WEB_SOCKET_PORT: Final = 9000
LOOPBACK_PORT: Final = 7000
SOCKET: Final = "/tmp/upper.sock"
# It echoes WebSocket messages of at most 125 bytes. At a port of the loopback and at a socket it
# answers in upper case, after the caller's half close.
SERVERS: Final = f"""
import base64, hashlib, os, socket, threading

def echo(far):
    head = b""
    while not head.endswith(b"\\r\\n\\r\\n"):
        head += far.recv(1)
    lines = [line.partition(b":") for line in head.split(b"\\r\\n")]
    [key] = [value.strip() for name, _, value in lines if name.lower() == b"sec-websocket-key"]
    mark = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    far.sendall(
        b"HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
        b"Sec-WebSocket-Accept: " + base64.b64encode(mark) + b"\\r\\n\\r\\n"
    )
    data = far.makefile("rb")
    while begun := data.read(2):
        size = begun[1] & 127
        mask, coded = data.read(4), data.read(size)
        plain = bytes(byte ^ mask[index % 4] for index, byte in enumerate(coded))
        far.sendall(begun[:1] + bytes((size,)) + plain)

def upper(far):
    data = b""
    while piece := far.recv(65536):
        data += piece
    far.sendall(data.upper())

def serve(listener, handle):
    def one(far):
        with far:
            handle(far)
    while True:
        threading.Thread(target=one, args=(listener.accept()[0],)).start()

at_path = socket.socket(socket.AF_UNIX)
at_path.bind("{SOCKET}")
at_path.listen()
for listener, handle in (
    (socket.create_server(("", {WEB_SOCKET_PORT})), echo),
    (socket.create_server(("127.0.0.1", {LOOPBACK_PORT})), upper),
    (at_path, upper),
):
    threading.Thread(target=serve, args=(listener, handle)).start()
"""
# By port, what the far side does with a connection; `SEEN` has what it saw of each.
WAITS, HALF_CLOSES, RESETS, CLOSES, DIES, SILENT = range(7000, 7006)
SEEN: Final = "/tmp/seen"
FAR_SIDES: Final = f"""
import os, socket, struct, threading

def waits(far):
    data = b""
    while piece := far.recv(65536):
        data += piece
    return data

def half_closes(far):
    far.sendall(b"hello")
    far.shutdown(socket.SHUT_WR)
    return waits(far)

def resets(far):
    far.recv(65536)
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return b""

def closes(far):
    far.recv(65536)
    far.sendall(b"bye")
    return b""

def dies(far):
    far.sendall(b"last words")
    far.recv(65536)
    os._exit(3)

def serve(port, handle):
    listener = socket.create_server(("127.0.0.1", port))
    def one(far):
        with far:
            said = handle(far)
        with open("{SEEN}", "a") as seen:
            seen.write(f"{{port}} {{said.decode()}}\\n")
    while True:
        threading.Thread(target=one, args=(listener.accept()[0],)).start()

open("{SEEN}", "w").close()
handlers = (waits, half_closes, resets, closes, dies)
for port, handle in enumerate(handlers, {WAITS}):
    threading.Thread(target=serve, args=(port, handle)).start()
"""
