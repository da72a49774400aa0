from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rooms.bus.fixtures import shared
from tests.rooms.roles.programs import Programs, programs

__all__ = ["shared"]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Programs]:
    with programs(tmp_path) as started:
        yield started
