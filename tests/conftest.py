"""What every test shares: fixed seeds, and no task left behind."""

import asyncio
import inspect
import random
from collections.abc import AsyncIterator

import hypothesis
import pytest
import pytest_asyncio

pytest_plugins = ["tests.proofs.real_cluster.fixtures"]

SEED = 20_251

hypothesis.settings.register_profile(
    "fixed", derandomize=True, deadline=None, print_blob=True, database=None
)
hypothesis.settings.load_profile("fixed")


def pytest_configure() -> None:
    """Without this, plugins that look for a loop outside of any make one and never close it."""
    asyncio.set_event_loop(None)


def pytest_report_header() -> str:
    return f"seed: {SEED}"


@pytest.fixture
def rng() -> random.Random:
    return random.Random(SEED)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First in, last out: every other fixture has ended by then what it started."""
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            item.fixturenames.insert(0, no_task_left_behind.__name__)


@pytest_asyncio.fixture
async def no_task_left_behind() -> AsyncIterator[None]:
    """Whoever starts a task ends it: one that outlives its test would hide a leak in a role."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left, f"tasks left behind: {sorted(task.get_name() for task in left)}"
