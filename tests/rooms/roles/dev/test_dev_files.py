"""Files of a storage on dev: served by a program if there is one, else clearly refused."""

import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.embedded.processes.programs import Program
from gpuruntime.settings.schema import HelperSettings
from tests import file_server
from tests.eventually import equals, eventually_blocking
from tests.proofs.real_cluster.product import Caller
from tests.rooms.roles.dev.test_dev import SIMULATED, calling
from tests.rooms.roles.programs import Programs

STORAGE = {"name": "models", "size": "1Gi", "accessor": {"enabled": True, "writable": True}}
FILES = "/gpu-storages/models/files"
MISSING = {HelperSettings().accessorImage: Program(name="dufs")}


def is_served(view: Any) -> bool:
    return bool(view["accessorStatus"]["phase"] == "Ready")


def fetch(address: str, method: str = "GET", path: str = "/", body: bytes | None = None) -> Any:
    url = f"{address}/api/v1{FILES}{path}"
    request = urllib.request.Request(url, method=method, data=body)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_files_are_served_by_a_program_on_the_path(program: Programs, tmp_path: Path) -> None:
    path = file_server.written(tmp_path / "bin").parent
    dev = program.dev(on_path=path)
    caller = Caller(dev.address)
    assert caller.post("/gpu-storages", STORAGE).status == 201
    caller.until("/gpu-storages/models", is_served)

    assert fetch(dev.address, "PUT", "/a.txt", b"hello") == (201, b"")
    assert fetch(dev.address, path="/a.txt") == (200, b"hello")
    assert fetch(dev.address) == (200, b"a.txt")

    changed = {"accessor": {"enabled": True, "writable": False}}
    assert caller.put("/gpu-storages/models", changed).status == 200
    assert fetch(dev.address, "PUT", "/b.txt", b"hello")[0] == 405
    eventually_blocking(lambda: fetch(dev.address, path="/a.txt"), equals((200, b"hello")))

    assert caller.put("/gpu-storages/models", {"accessor": None}).status == 200
    assert fetch(dev.address, path="/a.txt")[0] == 409
    assert dev.stop() == 0
    assert "Traceback" not in dev.log.read_text()


@pytest.mark.looptime
async def test_without_the_program_the_accessor_says_what_is_missing() -> None:
    async with calling(MISSING) as caller:
        await caller.post("/gpu-storages", STORAGE)
        view = await caller.until(
            "/gpu-storages/models", lambda view: view["accessorStatus"]["phase"] == "Failed"
        )
        words = [each["message"] for each in view["conditions"] if each["status"] == "False"]
        assert "the program dufs" in words[0]
        assert "is not on the PATH: install it and start again" in words[0]
        assert view["phase"] == "Ready", "the volume itself is well"
        status, answer = await caller.get(f"{FILES}/a.txt")
        assert (status, answer["error"]["code"]) == (503, "service_unavailable")
        assert "is not on the PATH" in answer["error"]["message"]


@pytest.mark.looptime
async def test_a_simulated_accessor_says_that_it_has_no_files() -> None:
    async with calling(SIMULATED) as caller:
        await caller.post("/gpu-storages", STORAGE)
        await caller.until("/gpu-storages/models", is_served)
        status, answer = await caller.get(f"{FILES}/a.txt")
        assert status == 503
        assert "is simulated" in answer["error"]["message"]
