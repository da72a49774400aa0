"""The place of a function's socket: its path in a Pod, the folder of its mount in dev."""

import json
from pathlib import Path

import pytest

from gpuruntime.framework.mounts import MOUNTS, place_of

SOCKET = "/tmp/framework/f.sock"


def test_a_path_stays_as_it_is_without_mounts() -> None:
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
def test_a_path_below_a_mount_is_in_the_mounts_folder(path: str, place: str) -> None:
    told = {MOUNTS: json.dumps({"/dev/shm": "/dev/0", "/tmp/framework": "/dev/1"})}
    assert place_of(path, told) == Path(place)
