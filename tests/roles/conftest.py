from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bus.fixtures import shared
from tests.roles.programs import Programs, programs

__all__ = ["shared"]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Programs]:
    with programs(tmp_path) as started:
        yield started
