"""An informer over real sockets, against a server with every fault that a server can have."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from gpuruntime.kube.errors import (
    ForbiddenError,
    KubeError,
    MalformedAnswerError,
    UnreachableError,
)
from gpuruntime.models.kubernetes.metadata import Key
from tests.rooms.informer.fronts import HttpFront, http_transport
from tests.rooms.informer.harness import Followed, running
from tests.rooms.informer.model import (
    Answer,
    ModelServer,
    Query,
    Script,
    bookmark,
    error_event,
    event,
    hang,
    listing,
    pieces,
    refuse,
    say,
    say_then_go_on,
    whole,
)
from tests.rooms.kube.things import KEY, thing

pytestmark = pytest.mark.looptime

LONG = 600.0
MOST_REQUESTS_PER_SECOND = 0.25


class Scene:
    def __init__(self, server: ModelServer, front: HttpFront, followed: Followed) -> None:
        self.server = server
        self.front = front
        self.followed = followed
        self.informer = followed.informer
        self.heard = followed.heard

    def lists(self) -> int:
        return len(self.server.called("list"))

    def versions_resumed(self) -> list[str]:
        return [call.version for call in self.server.called("watch")]

    def assert_in_step(self) -> None:
        assert self.followed.view() == self.server.truth()
        announced = {key: found.metadata.resourceVersion for key, found in self.heard.last.items()}
        assert announced == {key: version for key, (version, _) in self.server.truth().items()}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    server = ModelServer()
    server.put("anvil")
    server.put("bellows")
    async with http_transport(server, tmp_path) as (transport, front):
        yield Scene(server, front, Followed(transport))


def key(name: str) -> Key:
    return Key(KEY.namespace, name)


async def test_a_first_list_and_a_watch_follow_every_change(scene: Scene) -> None:
    async with running(scene.informer):
        scene.server.put("anvil", size=2)
        scene.server.put("chisel")
        scene.server.delete("bellows")
        await asyncio.sleep(1)

        scene.assert_in_step()
        assert scene.heard.names == ["anvil", "bellows", "anvil", "chisel", "bellows"]
        assert scene.lists() == 1


async def test_a_watch_that_ends_in_order_is_resumed_at_once_from_its_version(
    scene: Scene,
) -> None:
    async with running(scene.informer):
        scene.server.put("anvil", size=2)
        await asyncio.sleep(LONG * 2)

        first, *later = scene.server.called("watch")
        assert later
        for before, after in pairwise([first, *later]):
            assert after.at - before.at == pytest.approx(int(before.query["timeoutSeconds"]))
        assert int(later[0].version) >= scene.server.version
        assert scene.lists() == 1


async def test_a_server_that_ends_each_watch_at_once_is_called_rarely(scene: Scene) -> None:
    scene.server.script("watch", *[say()] * 1_000)
    async with running(scene.informer):
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(60)
        before = len(scene.server.calls)
        await asyncio.sleep(3_600)
        rate = (len(scene.server.calls) - before) / 3_600

        assert rate <= MOST_REQUESTS_PER_SECOND
        assert scene.lists() == 1
        assert before - 2 <= 20, f"calls within a minute of {started}"


async def test_half_an_event_before_the_end_is_dropped_and_received_again(
    scene: Scene,
) -> None:
    scene.server.script("watch", half_of_the_next_event(then_reset=False))
    await change_after_resumption(scene)


async def test_a_reset_inside_an_event_loses_nothing(scene: Scene) -> None:
    scene.server.script("watch", half_of_the_next_event(then_reset=True))
    await change_after_resumption(scene)


def half_of_the_next_event(*, then_reset: bool) -> Script:
    async def stream(server: ModelServer, query: Query) -> AsyncIterator[bytes]:
        async for line in server.events(query):
            yield line[: len(line) // 2]
            break
        if then_reset:
            raise ConnectionResetError

    return lambda server, query: Answer(chunks=stream(server, query))


async def change_after_resumption(scene: Scene) -> None:
    async with running(scene.informer):
        scene.server.put("anvil", size=2)
        await asyncio.sleep(5)

        scene.assert_in_step()
        assert scene.heard.names.count("anvil") == 2
        assert scene.lists() == 1
        assert len(set(scene.versions_resumed())) == 1


async def test_a_silent_connection_is_closed_and_its_changes_are_found(scene: Scene) -> None:
    scene.server.script("watch", hang())
    async with running(scene.informer):
        scene.server.put("anvil", size=2)
        scene.server.delete("bellows")
        await asyncio.sleep(74)
        assert len(scene.server.called("watch")) == 1

        await asyncio.sleep(3)
        scene.assert_in_step()
        assert scene.lists() == 1


async def test_a_server_that_never_answers_is_called_rarely(scene: Scene) -> None:
    scene.server.script("watch", *[hang()] * 100)
    async with running(scene.informer):
        await asyncio.sleep(3_600)
        assert len(scene.server.called("watch")) <= 3_600 / 75 + 1


@pytest.mark.parametrize(
    "script",
    [
        refuse(410, "Expired", "too old resource version"),
        refuse(410, "Gone"),
        say(error_event(410, "Expired")),
        say(event("ERROR", {"kind": "Status", "reason": "Expired"})),
    ],
    ids=["status", "status-gone", "in-stream", "in-stream-without-code"],
)
async def test_an_expired_version_leads_to_a_list_that_finds_deletions(
    scene: Scene, script: Script
) -> None:
    scene.server.script("watch", say(), script)
    async with running(scene.informer):
        scene.server.delete("bellows")
        scene.server.put("chisel")
        scene.server.compact()
        await asyncio.sleep(10)

        scene.assert_in_step()
        assert scene.heard.names == ["anvil", "bellows", "bellows", "chisel"]
        assert scene.lists() == 2
        assert scene.followed.meter.sums["informer_relists_total"] == 1


async def test_versions_that_always_expire_do_not_cause_lists_without_pause(scene: Scene) -> None:
    scene.server.script("watch", *[refuse(410, "Expired")] * 1_000)
    async with running(scene.informer):
        await asyncio.sleep(60)
        before = len(scene.server.calls)
        await asyncio.sleep(3_600)
        assert (len(scene.server.calls) - before) / 3_600 <= MOST_REQUESTS_PER_SECOND


async def test_an_expired_continue_token_restarts_the_list(scene: Scene) -> None:
    scene.server.script("list", first_page_only, refuse(410, "Expired", "the token is too old"))
    async with running(scene.informer):
        await asyncio.sleep(5)

        scene.assert_in_step()
        assert [call.query.get("continue") for call in scene.server.called("list")] == [
            None,
            "100:1",
            None,
        ]


def first_page_only(server: ModelServer, _query: Query) -> Answer:
    return listing([server.objects[key("anvil")]], version=server.version, token="100:1")


async def test_a_throttled_page_is_requested_again_without_the_earlier_pages(scene: Scene) -> None:
    def last_page(server: ModelServer, _query: Query) -> Answer:
        return listing([server.objects[key("bellows")]], version=server.version)

    throttled = refuse(429, "TooManyRequests", **{"Retry-After": "3"})
    scene.server.script("list", first_page_only, throttled, last_page)
    async with running(scene.informer):
        _, second, third = scene.server.called("list")
        assert third.query["continue"] == second.query["continue"] == "100:1"
        assert third.at - second.at >= 3
        scene.assert_in_step()


@pytest.mark.parametrize(
    "object_",
    [
        {"kind": "Status", "code": 500, "reason": "InternalError", "message": "oops"},
        {"kind": "Status", "status": "Failure"},
        {"kind": "Status", "code": "many", "reason": 7},
        {},
        None,
        "what?",
    ],
    ids=["internal", "bare", "odd", "empty", "null", "text"],
)
async def test_an_error_of_any_shape_ends_the_window_and_the_watch_is_resumed(
    scene: Scene, object_: object
) -> None:
    scene.server.script("watch", say(event("ERROR", object_)))
    async with running(scene.informer):
        scene.server.put("anvil", size=2)
        await asyncio.sleep(5)

        scene.assert_in_step()
        assert scene.lists() == 1
        assert scene.informer.error is None


async def test_an_object_of_another_kind_is_not_taken_into_the_store(scene: Scene) -> None:
    ghost = thing("ghost", version="900") | {"kind": "Stranger"}
    scene.server.script("watch", say(event("ADDED", ghost)))
    async with running(scene.informer):
        scene.server.put("anvil", size=2)
        await asyncio.sleep(5)

        assert key("ghost") not in scene.informer.store
        scene.assert_in_step()


async def test_a_version_whose_watch_fails_twice_is_not_resumed_again(scene: Scene) -> None:
    scene.server.script("watch", *[say(error_event(500, "InternalError"))] * 2)
    async with running(scene.informer):
        scene.server.put("anvil", size=2)
        await asyncio.sleep(10)

        scene.assert_in_step()
        assert scene.lists() == 2


async def test_events_of_an_unknown_type_are_skipped(scene: Scene) -> None:
    stranger = event("REIMAGINED", thing("chisel", version="900"))
    scene.server.script("watch", say_then_go_on(stranger, b'{"kind":"Thing"}\n', b"\r\n"))
    async with running(scene.informer):
        scene.server.put("anvil", size=2)
        await asyncio.sleep(5)

        scene.assert_in_step()
        assert len(scene.server.called("watch")) == 1


async def test_an_older_version_of_an_object_is_ignored(scene: Scene) -> None:
    lines = [
        event("MODIFIED", thing("anvil", size=3, version="300")),
        event("MODIFIED", thing("anvil", size=2, version="200")),
        event("DELETED", thing("anvil", version="250")),
        event("ADDED", thing("chisel", version="290")),
    ]
    scene.server.script("watch", say_then_go_on(*lines))
    async with running(scene.informer):
        await asyncio.sleep(1)

        assert scene.followed.view()[key("anvil")] == ("300", 3)
        assert key("chisel") in scene.informer.store


async def test_a_late_event_does_not_revive_a_deleted_object(scene: Scene) -> None:
    lines = [
        event("DELETED", thing("anvil", version="300")),
        event("MODIFIED", thing("anvil", version="200")),
        event("ADDED", thing("bellows", version="99")),
    ]
    scene.server.script("watch", say_then_go_on(*lines))
    async with running(scene.informer):
        await asyncio.sleep(1)

        assert key("anvil") not in scene.informer.store
        assert scene.heard.names.count("anvil") == 2


async def test_an_event_received_twice_is_announced_once(scene: Scene) -> None:
    line = event("MODIFIED", thing("anvil", size=3, version="300"))
    deletion = event("DELETED", thing("bellows", version="301"))
    scene.server.script("watch", say_then_go_on(line, line, deletion, deletion))
    async with running(scene.informer):
        await asyncio.sleep(1)
        assert scene.heard.names == ["anvil", "bellows", "anvil", "bellows"]


async def test_a_bookmark_without_metadata_is_ignored_and_another_one_is_resumed_from(
    scene: Scene,
) -> None:
    blank = [event("BOOKMARK", object_) for object_ in ({}, {"metadata": None}, None)]
    scene.server.script("watch", say(*blank, bookmark(104)))
    async with running(scene.informer):
        await asyncio.sleep(5)
        assert scene.versions_resumed() == ["102", "104"]
        assert scene.informer.error is None


async def test_a_server_that_is_down_for_a_minute_is_called_rarely_and_resumed_without_a_list(
    scene: Scene,
) -> None:
    async with running(scene.informer):
        await scene.front.down()
        await asyncio.sleep(5)
        assert isinstance(scene.informer.error, UnreachableError)
        scene.server.put("anvil", size=2)
        scene.server.delete("bellows")
        await asyncio.sleep(55)
        await scene.front.up()
        await asyncio.sleep(31)

        scene.assert_in_step()
        assert scene.lists() == 1
        assert scene.informer.error is None


async def ten_seconds_then_a_reset() -> AsyncIterator[bytes]:
    await asyncio.sleep(10)
    async for chunk in pieces(then_reset=True):
        yield chunk


async def test_a_watch_that_breaks_and_reopens_is_no_error(scene: Scene) -> None:
    scene.server.script("watch", lambda *_: Answer(chunks=ten_seconds_then_a_reset()))
    errors = set()
    async with running(scene.informer):
        for _ in range(150):
            await asyncio.sleep(0.1)
            errors.add(scene.informer.error)
        assert len(scene.versions_resumed()) == 2
    assert errors == {None}


async def test_a_reopened_watch_shows_that_the_server_answers(scene: Scene) -> None:
    async with running(scene.informer):
        await scene.front.down()
        await asyncio.sleep(5)
        assert isinstance(scene.informer.error, UnreachableError)
        await scene.front.up()
        await asyncio.sleep(31)
        assert scene.informer.error is None


async def test_a_dead_server_is_called_at_most_every_four_seconds(scene: Scene) -> None:
    async with running(scene.informer):
        await scene.front.down()
        await asyncio.sleep(60)
        before = scene.followed.meter.sums["informer_failures_total"]
        await asyncio.sleep(3_600)
        rate = (scene.followed.meter.sums["informer_failures_total"] - before) / 3_600

        assert 1 / 60 <= rate <= MOST_REQUESTS_PER_SECOND


async def test_a_server_that_resets_every_watch_is_asked_rarely_from_the_first_minute(
    scene: Scene,
) -> None:
    async with running(scene.informer):
        await scene.front.down()
        async with scene.front.resetting() as resets:
            await asyncio.sleep(60)
            assert 3 <= len(resets) <= 60 * MOST_REQUESTS_PER_SECOND


async def test_a_server_that_resets_every_list_is_asked_rarely_from_the_first_minute(
    scene: Scene,
) -> None:
    await scene.front.down()
    # Without a list, the informer is given a minute.
    async with scene.front.resetting() as resets, running(scene.informer):
        assert 3 <= len(resets) <= 60 * MOST_REQUESTS_PER_SECOND


@pytest.mark.parametrize("retry_after", ["", "20"])
async def test_a_throttled_watch_is_resumed_without_a_list_after_its_retry_after(
    scene: Scene, retry_after: str
) -> None:
    headers = {"Retry-After": retry_after} if retry_after else {}
    scene.server.script("watch", *[refuse(429, "TooManyRequests", **headers)] * 3)
    async with running(scene.informer):
        scene.server.put("anvil", size=2)
        await asyncio.sleep(120)

        scene.assert_in_step()
        assert scene.lists() == 1
        moments = [call.at for call in scene.server.called("watch")]
        pauses = [after - before for before, after in pairwise(moments)]
        assert len(pauses) == 3
        assert min(pauses) >= float(retry_after or 0)


async def test_an_object_of_three_megabytes_is_received(scene: Scene) -> None:
    large = thing("chisel", version="300")
    large["metadata"]["annotations"] = {"note": "x" * 3_000_000}
    scene.server.script("watch", say_in_pieces(event("ADDED", large), of=10_000))
    async with running(scene.informer):
        await asyncio.sleep(1)

        found = scene.informer.store.get(key("chisel"))
        assert found is not None
        assert len(found.metadata.annotations["note"]) == 3_000_000
        assert len(scene.server.called("watch")) == 1


def say_in_pieces(line: bytes, *, of: int) -> Script:
    return say_then_go_on(*(line[start : start + of] for start in range(0, len(line), of)))


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (lambda *_: whole(b"<html>who are you?</html>"), MalformedAnswerError),
        (lambda *_: whole(b'{"kind": "ThingList", "items": ['), MalformedAnswerError),
        (lambda *_: listing([], version=100, kind="Stranger"), MalformedAnswerError),
        (lambda *_: whole(b'{"kind": "ThingList", "items": []}'), MalformedAnswerError),
        (lambda *_: whole(b"<html>bad gateway</html>", status=502), KubeError),
        (lambda *_: Answer(chunks=pieces(b'{"ki', then_reset=True)), UnreachableError),
        (refuse(403, "Forbidden"), ForbiddenError),
    ],
    ids=["html", "cut", "kind", "no-version", "gateway", "reset", "forbidden"],
)
async def test_a_failed_list_is_retried_and_its_error_is_shown_meanwhile(
    scene: Scene, script: Script, error: type[KubeError]
) -> None:
    scene.server.script("list", *[script] * 100)
    async with running(scene.informer):
        assert isinstance(scene.informer.error, error)
        assert not scene.informer.synced.is_set()

        scene.server.scripts["list"].clear()
        await asyncio.sleep(31)
        scene.assert_in_step()
        assert scene.informer.error is None


async def test_html_instead_of_a_watch_is_retried(scene: Scene) -> None:
    scene.server.script("watch", lambda *_: whole(b"<html>\n<body>\nlogin\n</html>\n"))
    async with running(scene.informer):
        scene.server.put("anvil", size=2)
        await asyncio.sleep(5)
        scene.assert_in_step()


async def test_a_forbidden_kind_does_not_affect_the_other_informers(
    scene: Scene, tmp_path: Path
) -> None:
    forbidding = ModelServer()
    forbidding.script("list", *[refuse(403, "Forbidden", "things is forbidden")] * 100)
    async with http_transport(forbidding, tmp_path) as (transport, _):
        forbidden = Followed(transport)
        async with running(scene.informer, forbidden.informer):
            scene.server.put("anvil", size=2)
            await asyncio.sleep(1)

            scene.assert_in_step()
            assert isinstance(forbidden.informer.error, ForbiddenError)
            assert "things is forbidden" in str(forbidden.informer.error)


async def test_an_error_dates_from_its_first_failure_and_ends_with_the_next_answer(
    scene: Scene,
) -> None:
    async with running(scene.informer):
        assert scene.informer.failing_seconds == 0
        await scene.front.down()
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(100)
        lasted = asyncio.get_running_loop().time() - started
        assert lasted - 2 < scene.informer.failing_seconds <= lasted
        await scene.front.up()
        await asyncio.sleep(31)
        assert scene.informer.failing_seconds == 0


async def test_the_first_page_of_a_list_that_never_ends_does_not_end_the_error(
    scene: Scene,
) -> None:
    pages = [first_page_only, refuse(410, "Expired")] * 100
    scene.server.script("list", *pages)
    async with running(scene.informer):
        await asyncio.sleep(60)
        assert scene.informer.failing_seconds > 60
