"""Where a framework finds its socket: where its unit says, or where dev has put its mounts."""

import json
from pathlib import Path

import pytest

from gpuruntime.framework.mounts import MOUNTS, place_of

SOCKET = "/tmp/framework/f.sock"


def test_without_a_word_a_path_is_what_it_says() -> None:
    assert place_of(SOCKET, {}) == Path(SOCKET)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (SOCKET, "/dev/1/f.sock"),
        ("/tmp/framework/deep/f.sock", "/dev/1/deep/f.sock"),
        ("/tmp/frameworks/f.sock", "/tmp/frameworks/f.sock"),
        ("/elsewhere/f.sock", "/elsewhere/f.sock"),
    ],
)
def test_what_is_below_a_mount_is_where_the_mount_is(path: str, place: str) -> None:
    told = {MOUNTS: json.dumps({"/dev/shm": "/dev/0", "/tmp/framework": "/dev/1"})}
    assert place_of(path, told) == Path(place)
