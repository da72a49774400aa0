"""A controller over informers brings objects to their wanted state through all disturbances."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gpuruntime.controller.controller import DONE, Controller, Result
from gpuruntime.kube.client import Client
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS, ConfigMap
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.workqueue.queue import WorkQueue
from tests.proofs.machinery.lines import Line
from tests.proofs.machinery.mirrors import Mirror, changed_to, make, server_view, value_of
from tests.proofs.machinery.worlds import World

ENDING = "-copy"


class Copier:
    """A process that keeps a copy of each original: created, changed and deleted with it."""

    def __init__(self, line: Line, namespace: str) -> None:
        self.mirror = Mirror(line, namespace)
        self._namespace = namespace
        self._client = self.mirror.client
        self._queue: WorkQueue[Key] = WorkQueue("copies")
        self._controller = Controller(
            "copies", self._queue, self._reconcile, workers=4, meter=self.mirror.tally
        )
        self.mirror.informer.add_handler(self._enqueue)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.mirror.running(), asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self._controller.run(), name="controller")
            yield
            task.cancel()

    def _enqueue(self, key: Key, _old: ConfigMap | None, _new: ConfigMap | None) -> None:
        self._queue.add(Key(key.namespace, key.name.removesuffix(ENDING)))

    async def _reconcile(self, key: Key) -> Result:
        store, copy_key = self.mirror.informer.store, Key(key.namespace, key.name + ENDING)
        original, copy = store.get(key), store.get(copy_key)
        if original is None:
            if copy is not None:
                await self._client.delete(CONFIG_MAPS, copy_key, uid=copy.metadata.uid)
        elif copy is None:
            value = value_of(original)
            self._learn(await make(self._client, key.namespace, copy_key.name, value))
        elif value_of(copy) != value_of(original):
            patch, version = changed_to(value_of(original)), copy.metadata.resourceVersion
            self._learn(
                await self._client.patch(CONFIG_MAPS, copy_key, patch, resource_version=version)
            )
        return DONE

    def _learn(self, written: ConfigMap) -> None:
        self.mirror.informer.write_through(written)


def are_copied(objects: dict[str, str]) -> bool:
    """Return whether each original has its copy, and each copy its original."""
    originals = {name for name in objects if not name.endswith(ENDING)}
    copies = {name + ENDING: objects[name] for name in originals}
    return objects == {name: objects[name] for name in originals} | copies


async def settled(copier: Copier, user: Client, namespace: str, originals: dict[str, str]) -> None:
    """Wait until the process shows these originals with their copies, as the server does."""
    await copier.mirror.until(
        lambda: are_copied(copier.mirror.view) and originals.items() <= copier.mirror.view.items()
    )
    assert copier.mirror.view == await server_view(user, namespace)
    assert len(copier.mirror.view) == 2 * len(originals)


@pytest.fixture
def copier(line: Line, namespace: str) -> Copier:
    return Copier(line, namespace)


async def test_copies_are_created_changed_and_deleted_with_their_originals(
    copier: Copier, user: Client, namespace: str
) -> None:
    await make(user, namespace, "a")
    await make(user, namespace, "b")
    async with copier.running():
        await settled(copier, user, namespace, {"a": "1", "b": "1"})
        await user.patch(CONFIG_MAPS, Key(namespace, "a"), changed_to("2"))
        await user.delete(CONFIG_MAPS, Key(namespace, "b"))
        await copier.mirror.until(lambda: copier.mirror.view == {"a": "2", "a-copy": "2"})
        await settled(copier, user, namespace, {"a": "2"})


async def test_foreign_changes_of_a_copy_are_reverted(
    copier: Copier, user: Client, namespace: str
) -> None:
    await make(user, namespace, "a")
    async with copier.running():
        await settled(copier, user, namespace, {"a": "1"})
        copy = Key(namespace, "a" + ENDING)
        await user.patch(CONFIG_MAPS, copy, changed_to("spoilt"))
        announced = copier.mirror.announced[copy.name]
        await copier.mirror.until(lambda: announced[-2:] == ["spoilt", "1"])
        await user.delete(CONFIG_MAPS, copy)
        await copier.mirror.until(lambda: announced[-2:] == [None, "1"])
        await settled(copier, user, namespace, {"a": "1"})


async def test_a_stale_view_causes_a_conflict_that_the_next_attempt_resolves(
    copier: Copier, line: Line, user: Client, namespace: str
) -> None:
    """The line holds the events back, so only the guard of the write detects the change."""
    await make(user, namespace, "a")
    async with copier.running():
        await settled(copier, user, namespace, {"a": "1"})
        line.hold()
        await user.patch(CONFIG_MAPS, Key(namespace, "a" + ENDING), changed_to("theirs"))
        written = await user.patch(CONFIG_MAPS, Key(namespace, "a"), changed_to("2"))
        copier.mirror.informer.write_through(written)
        await copier.mirror.tally.until("reconciles_total conflict", 1)
        line.release()
        await copier.mirror.until(lambda: copier.mirror.view == {"a": "2", "a-copy": "2"})
        await settled(copier, user, namespace, {"a": "2"})


async def test_two_processes_with_the_same_work_converge(
    world: World, user: Client, namespace: str
) -> None:
    copiers = [Copier(await world.connect(), namespace) for _ in range(2)]
    async with copiers[0].running(), copiers[1].running():
        for number in range(20):
            await make(user, namespace, f"n{number}")
        for number in range(0, 20, 2):
            await user.patch(CONFIG_MAPS, Key(namespace, f"n{number}"), changed_to("2"))
        wanted = {f"n{number}": "1" if number % 2 else "2" for number in range(20)}
        for copier in copiers:
            await settled(copier, user, namespace, wanted)


async def test_work_continues_after_a_restart_of_the_server(
    copier: Copier, world: World, user: Client, namespace: str
) -> None:
    await make(user, namespace, "a")
    async with copier.running():
        await settled(copier, user, namespace, {"a": "1"})
        await world.restart(False)
        await user.patch(CONFIG_MAPS, Key(namespace, "a"), changed_to("2"))
        await make(user, namespace, "b")
        await copier.mirror.until(lambda: copier.mirror.view.get("b-copy") == "1")
        await settled(copier, user, namespace, {"a": "2", "b": "1"})


async def test_work_that_did_not_reach_the_server_is_retried(
    copier: Copier, line: Line, user: Client, namespace: str
) -> None:
    async with copier.running():
        line.cut()
        made = await make(user, namespace, "a")
        copier.mirror.informer.write_through(made)
        await copier.mirror.tally.until("reconciles_total cluster_error", 2)
        line.mend()
        await settled(copier, user, namespace, {"a": "1"})
