"""Each version of any run of writes can be listed, and a watch leads from it to the present."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.embedded.apiserver.server import Server
from tests.rooms.embedded.calls import MAPS, ask, call, new_server

NAMES = ["a", "a-b", "a.b", "b"]
LAST = "z"
Step = tuple[str, str, str]

steps = st.lists(
    st.tuples(
        st.sampled_from(["create", "change", "delete"]),
        st.sampled_from(NAMES),
        st.sampled_from(["x", "y"]),
    ),
    max_size=25,
)


def take(server: Server, step: Step) -> None:
    verb, name, label = step
    if verb == "create":
        call(server, "POST", MAPS, {"metadata": {"name": name, "labels": {"of": label}}})
    elif verb == "change":
        call(server, "PATCH", f"{MAPS}/{name}", {"metadata": {"labels": {"of": label}}})
    else:
        call(server, "DELETE", f"{MAPS}/{name}")


def seen(server: Server, **query: str) -> dict[str, Any]:
    items = call(server, "GET", MAPS, **query)["items"]
    return {item["metadata"]["name"]: item for item in items}


@given(steps)
def test_each_version_is_listed_as_it_was(run: list[Step]) -> None:
    server = new_server()
    moments = {}
    for step in run:
        take(server, step)
        moments[str(server.store.version)] = seen(server)
    for version, objects in moments.items():
        past = seen(server, resourceVersion=version, resourceVersionMatch="Exact")
        assert past == objects


@pytest.mark.parametrize("selector", ["", "of=x"])
@given(run=steps, begun=st.integers(min_value=0, max_value=25))
def test_a_watch_leads_from_any_version_to_the_present(
    selector: str, run: list[Step], begun: int
) -> None:
    server = new_server()
    for step in run[:begun]:
        take(server, step)
    version, mirror = str(server.store.version), seen(server, labelSelector=selector)
    for step in run[begun:]:
        take(server, step)
    query = {"resourceVersion": version, "labelSelector": selector}
    for kind, item in asyncio.run(events_of(server, query)):
        name = item["metadata"]["name"]
        if kind == "DELETED":
            del mirror[name]
        else:
            assert (name in mirror) is (kind == "MODIFIED")
            mirror[name] = {"metadata": item["metadata"]}
    assert mirror == seen(server, labelSelector=selector)


async def events_of(server: Server, query: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a watch up to an object that is created to mark the end."""
    take(server, ("create", LAST, "x"))
    stream = server.open_stream(ask("GET", MAPS, watch="1", **query))
    events: list[tuple[str, dict[str, Any]]] = []
    async for chunk in stream.chunks():
        lines = map(json.loads, chunk.splitlines())
        events += [(event["type"], event["object"]) for event in lines]
        if events[-1][1]["metadata"]["name"] == LAST:
            break
    stream.close()
    return events
