"""Storages on the whole product: filled once, mounted by one unit at a time, and kept."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.rooms.roles.dev.test_dev import Caller, calling
from tests.walkthrough import STOCK, UNIT

pytestmark = pytest.mark.looptime

STORAGE = {"name": "models", "size": "10Gi"}
FILLED = {**STORAGE, "prepare": {"fromImage": "busybox:1.36", "command": ["true"]}}
MOUNT = {"name": "models", "mountPath": "/models"}


def is_ready(view: Any) -> bool:
    return bool(view["phase"] == "Ready")


async def storage(caller: Caller, holds: Callable[[Any], bool], name: str = "models") -> Any:
    return await caller.until(f"/gpu-storages/{name}", holds)


async def stocked(caller: Caller) -> None:
    assert (await caller.post("/operator/stock-units", STOCK))[0] == 202
    await caller.until("/operator/jobs/stock-g1-demo-001", lambda job: job["ready"] == 2)


async def mounting(caller: Caller, name: str, *mounts: Any) -> tuple[int, Any]:
    body = {**UNIT, "operationID": f"unit-{name}", "name": name, "storageMounts": list(mounts)}
    return await caller.post("/gpu-units", body)


async def test_a_storage_is_created_filled_and_ready() -> None:
    async with calling() as caller:
        status, made = await caller.post("/gpu-storages", FILLED)
        assert (status, made["data"]["phase"]) == (201, "Pending")
        view = await storage(caller, is_ready)
        assert (view["claimName"], view["capacity"]) == ("models", "10Gi")
        assert view["prepareStatus"]["phase"] == "Succeeded"
        assert view["prepareStatus"]["jobName"].startswith("storage-prepare-models-")
        assert {each["type"]: each["status"] for each in view["conditions"]} == {
            "Ready": "True",
            "Prepared": "True",
            "AccessorReady": "False",
        }


async def test_a_unit_starts_once_its_storage_is_ready_and_holds_it_until_deleted() -> None:
    async with calling() as caller:
        await stocked(caller)
        assert (await caller.post("/gpu-storages", STORAGE))[0] == 201
        assert (await mounting(caller, "first", MOUNT))[0] == 201
        first = await caller.until("/gpu-units/first", is_ready)
        held = await storage(caller, lambda view: view["mountedBy"] == ["first"])
        assert held["holder"]["name"] == "first"
        assert {each["type"] for each in first["conditions"]} == {"Ready", "StorageReady"}

        assert (await mounting(caller, "second", MOUNT))[0] == 201
        waiting = await caller.until(
            "/gpu-units/second", lambda unit: unit["reason"] == "StorageNotReady"
        )
        assert "is held by unit first" in waiting["message"]
        assert waiting["phase"] == "Progressing"
        status = await caller.delete("/gpu-storages/models")
        assert status == 409

        assert await caller.delete("/gpu-units/first") == 204
        await caller.until("/gpu-units/second", is_ready)
        await storage(caller, lambda view: view["mountedBy"] == ["second"])


async def test_a_suspended_unit_keeps_its_storage() -> None:
    async with calling() as caller:
        await stocked(caller)
        await caller.post("/gpu-storages", STORAGE)
        await mounting(caller, "sleeper", MOUNT)
        await caller.until("/gpu-units/sleeper", is_ready)
        await caller.put("/gpu-units/sleeper", {"suspended": True})
        await caller.until("/gpu-units/sleeper", lambda unit: unit["phase"] == "Suspended")
        await asyncio.sleep(120)
        _, view = await caller.get("/gpu-storages/models")
        assert view["data"]["mountedBy"] == ["sleeper"]
        await caller.put("/gpu-units/sleeper", {"suspended": False})
        await caller.until("/gpu-units/sleeper", is_ready)


async def test_a_unit_that_becomes_a_functions_template_releases_its_storage() -> None:
    async with calling() as caller:
        await stocked(caller)
        await caller.post("/gpu-storages", STORAGE)
        await mounting(caller, "fn", MOUNT)
        await caller.until("/gpu-units/fn", is_ready)
        function = {"serverless": {"requestID": "fn", "maxWorkers": 1}}
        assert (await caller.put("/gpu-units/fn", function))[0] == 200
        await storage(caller, lambda view: view["mountedBy"] == [])


async def test_a_removed_mount_releases_the_storage() -> None:
    async with calling() as caller:
        await stocked(caller)
        await caller.post("/gpu-storages", STORAGE)
        await mounting(caller, "loose", MOUNT)
        await caller.until("/gpu-units/loose", is_ready)
        assert (await caller.put("/gpu-units/loose", {"storageMounts": None}))[0] == 200
        await storage(caller, lambda view: view["mountedBy"] == [])
        unit = await caller.until("/gpu-units/loose", is_ready)
        assert [each["type"] for each in unit["conditions"]] == ["Ready"]
        assert await caller.delete("/gpu-storages/models") == 204


async def test_a_unit_cannot_ask_for_a_storage_that_does_not_exist() -> None:
    async with calling() as caller:
        await stocked(caller)
        status, answer = await mounting(caller, "lost", MOUNT)
        assert (status, answer["error"]["code"]) == (404, "gpustorage_not_found")
        assert "models" in answer["error"]["message"]
        _, health = await caller.get("/health")
        assert health["data"]["readyStockCount"] == 2


async def test_a_copy_waits_for_its_source() -> None:
    async with calling() as caller:
        copy = {"name": "copy", "size": "10Gi", "prepare": {"fromStorageName": "models"}}
        assert (await caller.post("/gpu-storages", copy))[0] == 201
        waiting = await storage(caller, lambda view: view["reason"] == "SourceNotReady", "copy")
        assert waiting["message"] == (
            "storage models to copy from does not exist: create it, or delete this one"
        )
        await caller.post("/gpu-storages", FILLED)
        view = await storage(caller, is_ready, "copy")
        assert view["prepareStatus"]["phase"] == "Succeeded"


async def test_storages_that_would_copy_each_other_are_rejected() -> None:
    async with calling() as caller:
        one = {"name": "one", "size": "1Gi", "prepare": {"fromStorageName": "two"}}
        two = {"name": "two", "size": "1Gi", "prepare": {"fromStorageName": "one"}}
        assert (await caller.post("/gpu-storages", one))[0] == 201
        status, answer = await caller.post("/gpu-storages", two)
        assert (status, answer["error"]["details"][0]["field"]) == (
            400,
            "prepare.fromStorageName",
        )


async def test_a_storage_grows_and_never_shrinks() -> None:
    async with calling() as caller:
        await caller.post("/gpu-storages", STORAGE)
        await storage(caller, is_ready)
        assert (await caller.put("/gpu-storages/models", {"size": "5Gi"}))[0] == 400
        assert (await caller.put("/gpu-storages/models", {"size": "20Gi"}))[0] == 200
        view = await storage(caller, lambda view: view["observedGeneration"] == view["generation"])
        assert (view["phase"], view["size"]) == ("Ready", "20Gi")


async def test_only_a_failed_prepare_can_be_recovered() -> None:
    async with calling() as caller:
        await caller.post("/gpu-storages", FILLED)
        await storage(caller, is_ready)
        status, answer = await caller.post("/gpu-storages/models/recover", {})
        assert (status, answer["error"]["code"]) == (409, "nothing_to_recover")


async def test_an_accessor_is_created_and_removed() -> None:
    async with calling() as caller:
        await caller.post("/gpu-storages", {**STORAGE, "accessor": {"enabled": True}})
        view = await storage(caller, lambda view: view["accessorStatus"]["phase"] == "Ready")
        assert view["accessorStatus"]["serviceName"] == "storage-accessor-models"
        await caller.put("/gpu-storages/models", {"accessor": None})
        await storage(caller, lambda view: view["accessorStatus"]["phase"] == "")
