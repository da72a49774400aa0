"""Messages between a caller and the API server pass as they are, or not at all."""

import json
import random
from typing import Any

import pytest

from gpuruntime.gateway.containers.exec_messages import (
    LARGEST_FROM_CALLER,
    LARGEST_FROM_SERVER,
    MessageError,
    demand_output,
    from_caller,
    is_status,
    naming_the_shell,
)

SIZE = b'\x04{"Width":80,"Height":24}'
PASSED = {
    "input": b"\x00ls\n",
    "no input": b"\x00",
    "the longest input": b"\x00" + bytes(32 * 1024),
    "a size": SIZE,
    "the end of input": b"\xff\x00",
}
IGNORED = {
    "a minimised window": b'\x04{"Width":0,"Height":24}',
    "no rows": b'\x04{"Width":80,"Height":0}',
    "a million columns": b'\x04{"Width":1000000,"Height":24}',
    "a negative side": b'\x04{"Width":80,"Height":-1}',
}
REFUSED = {
    "nothing": b"",
    "output": b"\x01x",
    "errors": b"\x02x",
    "a status": b'\x03{"status":"Success"}',
    "an unknown channel": b"\x05x",
    "the end of another channel": b"\xff\x01",
    "the end of no channel": b"\xff",
    "two ends": b"\xff\x00\x00",
    "a byte more than the longest": b"\x00" + bytes(32 * 1024 + 1),
    "a size that is no JSON": b"\x04{",
    "a size of text": b'\x04{"Width":"80","Height":24}',
    "a size without rows": b'\x04{"Width":80}',
    "a size with a fraction": b'\x04{"Width":80.5,"Height":24}',
}


@pytest.mark.parametrize("message", PASSED.values(), ids=PASSED)
def test_what_a_caller_may_send_passes_as_it_is(message: bytes) -> None:
    assert from_caller(message) == message


@pytest.mark.parametrize("message", IGNORED.values(), ids=IGNORED)
def test_a_size_that_no_terminal_has_is_ignored(message: bytes) -> None:
    assert from_caller(message) is None


@pytest.mark.parametrize("message", REFUSED.values(), ids=REFUSED)
def test_any_other_message_of_a_caller_is_refused(message: bytes) -> None:
    with pytest.raises(MessageError):
        from_caller(message)


def test_a_size_has_no_other_member_when_it_passes() -> None:
    assert from_caller(b'\x04{"Height":24,"Width":80,"container":"worker"}') == SIZE


def test_of_a_thousand_random_messages_only_those_of_three_channels_pass() -> None:
    rng = random.Random(19)
    begins = (*PASSED.values(), *IGNORED.values(), *REFUSED.values())
    passed = 0
    for _ in range(1000):
        message = rng.choice(begins)[: rng.randrange(1, 60)]
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(message) + 1)
            message = message[:at] + rng.randbytes(rng.randrange(3)) + message[at + 1 :]
        try:
            result = from_caller(message)
        except MessageError:
            continue
        if result is None:
            assert message[:1] == b"\x04"
            continue
        passed += 1
        assert len(result) <= LARGEST_FROM_CALLER
        match result[0]:
            case 0:
                assert result == message
            case 4:
                size: dict[str, Any] = json.loads(result[1:])
                assert set(size) == {"Width", "Height"}
                assert all(0 < side < 65_536 for side in size.values())
            case channel:
                assert (channel, result) == (255, b"\xff\x00")
    assert passed > 100


@pytest.mark.parametrize(
    "message", [b"", b"\x01", b"\x01x", b"\x02x", b"\x03{}", b"\x01" + bytes(2**20 - 1)]
)
def test_output_errors_and_status_pass(message: bytes) -> None:
    demand_output(message)


@pytest.mark.parametrize(
    "message", [b"\x00x", b"\x04{}", b"\xff\x00", b"\x09", bytes(LARGEST_FROM_SERVER + 1)]
)
def test_no_other_message_of_a_server_passes(message: bytes) -> None:
    with pytest.raises(MessageError, match="the cluster sent"):
        demand_output(message)


def test_only_a_status_with_content_is_the_end() -> None:
    ends = {message: is_status(message) for message in (b"", b"\x01x", b"\x03", b"\x03{}")}
    assert ends == {b"": False, b"\x01x": False, b"\x03": False, b"\x03{}": True}


def status(**members: Any) -> bytes:
    return b"\x03" + json.dumps(members).encode()


UNCHANGED = {
    "success": status(status="Success"),
    "an exit code": status(
        status="Failure", details={"causes": [{"reason": "ExitCode", "message": "127"}]}
    ),
    "no JSON": b"\x03oops",
    "another failure": status(status="Failure", message="container runtime does not run"),
    "a shell that may not run": status(status="Failure", message='exec: "sh": permission denied'),
    "another program": status(status="Failure", message='exec: "bash": not found'),
}


@pytest.mark.parametrize("message", UNCHANGED.values(), ids=UNCHANGED)
def test_the_status_of_a_shell_that_ran_stays_as_it_is(message: bytes) -> None:
    assert naming_the_shell(message) == message


NO_SHELL = {
    "containerd": 'OCI runtime exec failed: exec: "sh": executable file not found in $PATH',
    "CRI-O": "executable file `sh` not found in $PATH: No such file or directory",
    "the embedded cluster": "container runtime: 'sh' cannot be run: No such file or directory",
}


@pytest.mark.parametrize("words", NO_SHELL.values(), ids=NO_SHELL)
def test_a_shell_that_an_image_lacks_is_named(words: str) -> None:
    told = naming_the_shell(status(status="Failure", code=500, message=words))
    members = json.loads(told[1:])
    assert members["message"] == f"the image has no sh: name a command that it has ({words})"
    assert (told[0], members["status"], members["code"]) == (3, "Failure", 500)
