"""The rules of each message of an exec session: its channel, its size and its form.

The first byte is the channel (`Channel`). A caller sends on three of them, and the API server on
three others, so no message passes as one of the other side.
"""

from typing import Final

import attrs

from gpuruntime.errors import GpuRuntimeError
from gpuruntime.gateway.containers.missing_shell import NO_SHELL, says_no_shell
from gpuruntime.kube.pod_exec import LARGEST_SIDE
from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.exec_streams import PIECE_BYTES, Channel

# Bytes of a whole message, with the one of its channel.
LARGEST_FROM_CALLER: Final = PIECE_BYTES + 1
LARGEST_FROM_SERVER: Final = 1024 * 1024
_NO_SHELL: Final = f"{NO_SHELL}: name a command that it has"
_END_OF_INPUT: Final = bytes((Channel.CLOSE, Channel.STDIN))
_OUTPUT: Final = frozenset({Channel.STDOUT, Channel.STDERR, Channel.STATUS})


class MessageError(GpuRuntimeError):
    """A message that its sender may not send: the session ends."""


@attrs.frozen(kw_only=True, slots=True)
class _Size:
    Width: int
    Height: int


def size_message(columns: int, rows: int) -> bytes:
    """Return the message of a terminal's size; the size must be one that a terminal has."""
    return bytes((Channel.RESIZE,)) + codec.encode({"Width": columns, "Height": rows})


def is_size(columns: int, rows: int) -> bool:
    return 0 < columns <= LARGEST_SIDE and 0 < rows <= LARGEST_SIDE


def from_caller(message: bytes) -> bytes | None:
    """Return the message as it goes on, or None if it is ignored. Raise MessageError.

    A size that no terminal has is ignored: windows that are minimised have it.
    """
    if len(message) > LARGEST_FROM_CALLER:
        raise MessageError(f"a message has {len(message)} bytes: at most {LARGEST_FROM_CALLER}")
    channel = message[:1]
    if channel == bytes((Channel.STDIN,)):
        return message
    if channel == bytes((Channel.RESIZE,)):
        return _size_of(message[1:])
    if message == _END_OF_INPUT:
        return message
    raise MessageError("callers send channel 0 (input), 4 (size), and 255 0 (end of input)")


def _size_of(data: bytes) -> bytes | None:
    try:
        size = codec.decode(data, _Size)
    except codec.MalformedObjectError as error:
        raise MessageError("a size is JSON such as {'Width': 80, 'Height': 24}") from error
    return size_message(size.Width, size.Height) if is_size(size.Width, size.Height) else None


def demand_output(message: bytes) -> None:
    """Raise MessageError unless a server may send the message; an empty one opens a channel."""
    if len(message) > LARGEST_FROM_SERVER:
        raise MessageError(f"the cluster sent {len(message)} bytes in one message")
    if message and message[0] not in _OUTPUT:
        raise MessageError(f"the cluster sent a message of channel {message[0]}")


def is_status(message: bytes) -> bool:
    """Return whether the message has the end of the command."""
    return message[:1] == bytes((Channel.STATUS,)) and len(message) > 1


def naming_the_shell(message: bytes) -> bytes:
    """Return the status of the login shell, with words if the image has no shell."""
    try:
        status = codec.decode_object(message[1:])
    except codec.MalformedObjectError:
        return message
    words = str(status.get("message", ""))
    if status.get("status") == "Success" or not says_no_shell(words):
        return message
    return message[:1] + codec.encode({**status, "message": f"{_NO_SHELL} ({words})"})
