"""Settings that all tests share: fixed seeds, and a check for tasks that outlive their test."""

import asyncio
import gc
import inspect
import random
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import pytest_asyncio
from xdist.scheduler import LoadScopeScheduling

pytest_plugins = ["tests.proofs.real_cluster.fixtures"]

ROOT = Path(__file__).parents[1]
SEED = 20_251

hypothesis.settings.register_profile(
    "fixed", derandomize=True, deadline=None, print_blob=True, database=None
)
hypothesis.settings.load_profile("fixed")


def pytest_configure() -> None:
    """Unset the main thread's event loop.

    Otherwise plugins that ask for a loop outside of any create one and never close it.
    """
    asyncio.set_event_loop(None)


def pytest_report_header() -> str:
    return f"seed: {SEED}"


@pytest.fixture
def rng() -> random.Random:
    return random.Random(SEED)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Any:
    """Let `--dist loadscope` run tests that share a world in one process, one after the other."""
    if config.getvalue("dist") != "loadscope":
        return None
    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = _world_of
    return scheduling


@cache
def _world_of(test: str) -> str:
    """Return the nearest folder with a conftest below `tests`, or the module of the test."""
    module = Path(test.partition("::")[0])
    folder = next(each for each in module.parents if (ROOT / each / "conftest.py").exists())
    return str(module if folder == Path("tests") else folder)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Request `no_task_left_behind` first in every async test, so that it is torn down last.

    Tests of roles start processes and take the longest, so they come first.
    """
    items.sort(key=lambda item: "roles" not in item.path.parts)
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            item.fixturenames.insert(0, no_task_left_behind.__name__)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Run no garbage collection meanwhile: almost every new object stays until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    set_aside()


def set_aside() -> None:
    """Leave the modules and the collected tests out of every later garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def thawed() -> Iterator[None]:
    """Thaw what a test has frozen, and set the objects of the suite aside again."""
    yield
    gc.unfreeze()
    set_aside()


@pytest_asyncio.fixture
async def no_task_left_behind() -> AsyncIterator[None]:
    """Fail an async test that leaves a task behind: it would hide a leak in a role."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not left, f"tasks left behind: {sorted(task.get_name() for task in left)}"
