from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.roles.programs import Programs, programs


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Programs]:
    with programs(tmp_path) as started:
        yield started
