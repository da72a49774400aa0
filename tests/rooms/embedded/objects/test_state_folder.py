"""A server continues with the objects that an earlier one has left in its folder."""

import random
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gpuruntime.embedded.apiserver.server import Server
from gpuruntime.embedded.objects.state_folder import (
    JOURNAL,
    SKIPPED_VERSIONS,
    SNAPSHOT,
    StateFolder,
    state_folder,
)
from gpuruntime.errors import ConfigurationError, StateNotKeptError
from tests.rooms.embedded.builders import MOMENT
from tests.rooms.embedded.calls import MAPS, call, make, names

SERVICES = "/api/v1/namespaces/default/services"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.org/v1/namespaces/default/widgets"
WIDGET_SCHEMA = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
WIDGET_DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "plural": "widgets"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": WIDGET_SCHEMA},
            }
        ],
    },
}


def server_on(state: StateFolder, *, seed: int = 1) -> Server:
    return Server(now=lambda: MOMENT, rng=random.Random(seed), state=state)


@contextmanager
def kept(path: Path) -> Iterator[Server]:
    """Run a server that stops in order."""
    with state_folder(path) as state:
        server = server_on(state)
        yield server
        state.close(server.store)


@contextmanager
def killed(path: Path) -> Iterator[Server]:
    """Run a server whose changes are flushed, and that never stops in order."""
    with state_folder(path) as state:
        server = server_on(state)
        yield server
        state.flush(server.store)


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """Let no file grow beyond the journal and half a line more."""
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (path / JOURNAL).stat().st_size + 10
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, unlimited[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)


def test_objects_keep_their_content_uid_and_version_over_a_stop(tmp_path: Path) -> None:
    with kept(tmp_path) as server:
        made = [make(server, "a", data={"x": "y"}), make(server, "b")]
        call(server, "DELETE", f"{MAPS}/b")
        last = call(server, "GET", MAPS)["metadata"]["resourceVersion"]
    with kept(tmp_path) as server:
        listed = call(server, "GET", MAPS)
        assert names(listed) == ["a"]
        assert call(server, "GET", f"{MAPS}/a") == made[0]
        assert listed["metadata"]["resourceVersion"] == last
        changed = call(server, "PATCH", f"{MAPS}/a", {"data": {"x": "z"}})
        assert int(changed["metadata"]["resourceVersion"]) > int(last)


def test_a_killed_server_loses_nothing_that_was_flushed(tmp_path: Path) -> None:
    with killed(tmp_path) as server:
        make(server, "a")
        gone = make(server, "b")
        call(server, "DELETE", f"{MAPS}/b")
        changed = call(server, "PATCH", f"{MAPS}/a", {"data": {"x": "z"}})
    with state_folder(tmp_path) as state:
        assert state.restored is not None
        assert state.restored.was_killed
        server = server_on(state)
        assert call(server, "GET", f"{MAPS}/a") == changed
        assert call(server, "GET", f"{MAPS}/b")["code"] == 404
        later = make(server, "c")["metadata"]["resourceVersion"]
        assert int(later) > int(gone["metadata"]["resourceVersion"]) + SKIPPED_VERSIONS


def test_a_stop_in_order_counts_as_no_kill(tmp_path: Path) -> None:
    with kept(tmp_path):
        pass
    with state_folder(tmp_path) as state:
        assert state.restored is not None
        assert not state.restored.was_killed


@pytest.mark.parametrize("tail", ['{"group":"","plu', '{"group":"","plu\n'], ids=["", "a line"])
def test_a_torn_end_of_the_journal_is_left_out(tmp_path: Path, tail: str) -> None:
    with killed(tmp_path) as server:
        make(server, "a")
    with (tmp_path / JOURNAL).open("a") as journal:
        journal.write(tail)
    with kept(tmp_path) as server:
        assert names(call(server, "GET", MAPS)) == ["a"]


@pytest.mark.parametrize("file", [SNAPSHOT, JOURNAL])
def test_damage_before_the_end_is_refused_with_its_line(tmp_path: Path, file: str) -> None:
    with killed(tmp_path) as server:
        make(server, "a")
        make(server, "b")
    lines = (tmp_path / file).read_text().splitlines(keepends=True)
    (tmp_path / file).write_text("".join((lines[0], "garbage\n", *lines[2:])))
    refused = pytest.raises(ConfigurationError, match=rf"{file}: line 2 is damaged: restore")
    with refused, state_folder(tmp_path):
        pass


def test_a_kill_between_the_snapshot_and_an_empty_journal_repeats_nothing(tmp_path: Path) -> None:
    with killed(tmp_path) as server:
        make(server, "a")
        call(server, "DELETE", f"{MAPS}/a")
        make(server, "b")
    journal = (tmp_path / JOURNAL).read_text()
    with kept(tmp_path) as server:
        call(server, "DELETE", f"{MAPS}/b")
    (tmp_path / JOURNAL).write_text(journal)
    with kept(tmp_path) as server:
        assert names(call(server, "GET", MAPS)) == []


def test_a_watch_from_before_the_restart_has_to_list_again(tmp_path: Path) -> None:
    with kept(tmp_path) as server:
        before = make(server, "a")["metadata"]["resourceVersion"]
        call(server, "DELETE", f"{MAPS}/a")
    with kept(tmp_path) as server:
        past = call(server, "GET", MAPS, resourceVersion=before, resourceVersionMatch="Exact")
        assert (past["code"], past["reason"]) == (410, "Expired")


def test_custom_objects_come_back_with_their_definition(tmp_path: Path) -> None:
    widget = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "a"}}
    with kept(tmp_path) as server:
        call(server, "POST", DEFINITIONS, WIDGET_DEFINITION)
        made = call(server, "POST", WIDGETS, {**widget, "size": 3})
        assert made["size"] == 3
    with kept(tmp_path) as server:
        assert call(server, "GET", f"{WIDGETS}/a") == made


def test_a_new_service_gets_no_address_or_port_of_a_restored_one(tmp_path: Path) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"generateName": "s-"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]},
    }
    specs = []
    for seed in range(3):
        with state_folder(tmp_path) as state:
            server = server_on(state, seed=seed)
            specs += [call(server, "POST", SERVICES, body)["spec"] for _ in range(3)]
            state.close(server.store)
    assert len({spec["clusterIP"] for spec in specs}) == len(specs)
    assert len({spec["ports"][0]["nodePort"] for spec in specs}) == len(specs)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    refused = pytest.raises(ConfigurationError, match="another gpuruntime dev uses this folder")
    with kept(tmp_path), refused, state_folder(tmp_path):
        pass


def test_a_folder_that_cannot_be_made_is_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = pytest.raises(ConfigurationError, match=r"--state .*file/x: Not a directory")
    with refused, state_folder(tmp_path / "file" / "x"):
        pass


def test_a_large_journal_becomes_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuruntime.embedded.objects.state_folder.LARGEST_JOURNAL", 1_000)
    with state_folder(tmp_path) as state:
        server = server_on(state)
        for number in range(200):
            make(server, f"m-{number}")
            state.flush(server.store)
        assert (tmp_path / JOURNAL).stat().st_size < (tmp_path / SNAPSHOT).stat().st_size
        assert '"m-9"' in (tmp_path / SNAPSHOT).read_text()


def test_a_full_disk_is_logged_once_and_the_state_is_kept_again_when_there_is_room(
    tmp_path: Path,
) -> None:
    with state_folder(tmp_path) as state:
        server = server_on(state)
        with capture_logs() as lines:
            with full_disk(tmp_path):
                make(server, "a")
                state.flush(server.store)
                make(server, "b")
                state.flush(server.store)
            make(server, "c")
            state.flush(server.store)
        assert [line["event"] for line in lines] == ["state not kept", "state kept again"]
        make(server, "d")
        state.flush(server.store)
    with kept(tmp_path) as server:
        assert names(call(server, "GET", MAPS)) == ["a", "b", "c", "d"]


def test_a_disk_that_stays_full_leaves_the_state_from_before(tmp_path: Path) -> None:
    with ExitStack() as disk, state_folder(tmp_path) as state:
        server = server_on(state)
        make(server, "a")
        state.flush(server.store)
        disk.enter_context(full_disk(tmp_path))
        make(server, "b")
        with pytest.raises(StateNotKeptError, match=rf"--state {tmp_path}: File too large"):
            state.close(server.store)
    with kept(tmp_path) as server:
        assert names(call(server, "GET", MAPS)) == ["a"]


def test_a_disk_without_room_for_a_snapshot_loses_nothing_of_the_journal(tmp_path: Path) -> None:
    with state_folder(tmp_path) as state:
        server = server_on(state)
        make(server, "a")
        state.flush(server.store)
        with full_disk(tmp_path), capture_logs() as lines:
            state.close(server.store)
        assert [line["event"] for line in lines] == ["last snapshot not written"]
    with kept(tmp_path) as server:
        assert names(call(server, "GET", MAPS)) == ["a"]


def test_a_start_on_a_disk_that_refuses_the_snapshot_says_why(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).touch()
    refused = pytest.raises(ConfigurationError, match=rf"--state {tmp_path}: File too large")
    with full_disk(tmp_path), refused, state_folder(tmp_path) as state:
        server_on(state)


def test_a_start_on_an_almost_full_disk_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuruntime.embedded.objects.state_folder.LEAST_FREE_BYTES", 2**60)
    refused = pytest.raises(ConfigurationError, match=r"MiB of its disk are free: make room for")
    with refused, state_folder(tmp_path):
        pass
