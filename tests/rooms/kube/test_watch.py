import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import pairwise
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.kube.errors import (
    ApiError,
    BadRequestError,
    ExpiredError,
    KubeError,
    MalformedAnswerError,
    OutcomeUnknownError,
    ThrottledError,
    UnavailableError,
    UnreachableError,
)
from gpuruntime.kube.transport import Request, Response, Socket, StreamResponse
from gpuruntime.kube.watch import (
    EVERYTHING,
    IDLE_LIMIT_SECONDS,
    OVERTIME_SECONDS,
    WINDOW_SECONDS,
    Bookmark,
    Change,
    ChangeType,
    Lines,
    Selection,
    open_window,
)
from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.metadata import PartialObject
from gpuruntime.models.kubernetes.resources import Resource
from tests.rooms.kube.things import KEY, THING_METADATA, THINGS, Thing, thing

pytestmark = pytest.mark.looptime

Piece = bytes | float | Exception


@attrs.define
class StreamingTransport:
    """A stream of the given pieces in order: bytes, seconds of silence, or an error."""

    pieces: list[Piece]
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    requests: list[Request] = attrs.field(factory=list)
    is_closed: bool = False
    is_body_closed: bool = False

    async def request(self, request: Request) -> Response:
        raise NotImplementedError(f"a watch asks for a stream: {request}")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        self.requests.append(request)
        try:
            yield self
        finally:
            self.is_closed = True

    def socket(
        self, request: Request, protocol: str
    ) -> AbstractAsyncContextManager[Socket | Response]:
        raise NotImplementedError(f"no test here opens a {protocol}: {request.path}")

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            for piece in self.pieces:
                if isinstance(piece, Exception):
                    raise piece
                if isinstance(piece, bytes):
                    yield piece
                else:
                    await asyncio.sleep(piece)
        finally:
            self.is_body_closed = True


def line(kind: str, object_: Any) -> bytes:
    return codec.encode({"type": kind, "object": object_}) + b"\n"


async def events_of(
    transport: StreamingTransport,
    resource: Resource[Any] = THINGS,
    *,
    selection: Selection = EVERYTHING,
) -> list[Change[Any] | Bookmark]:
    events: list[Change[Any] | Bookmark] = []
    async with open_window(transport, resource, "7", rng=Random(3), selection=selection) as window:
        events.extend([event async for event in window])
    assert transport.is_closed
    return events


async def test_changes_and_bookmarks_are_decoded() -> None:
    transport = StreamingTransport(
        [
            line("ADDED", thing(version="8")),
            line("MODIFIED", thing(size=2, version="9")),
            line("BOOKMARK", {"kind": "Thing", "metadata": {"resourceVersion": "12"}}),
            line("DELETED", thing(size=2, version="13")),
        ]
    )
    added, modified, bookmark, deleted = await events_of(transport)
    assert isinstance(added, Change)
    assert isinstance(added.object, Thing)
    assert (added.type, added.object.metadata.key) == (ChangeType.ADDED, KEY)
    assert isinstance(modified, Change)
    assert (modified.type, modified.object.spec.size) == (ChangeType.MODIFIED, 2)
    assert bookmark == Bookmark(resource_version="12")
    assert isinstance(deleted, Change)
    assert deleted.type is ChangeType.DELETED


async def test_a_window_asks_for_the_selection_from_the_version_on_with_bookmarks() -> None:
    transport = StreamingTransport([])
    selection = Selection(namespace="lab", label_selector="a=b", field_selector="x=y")
    await events_of(transport, selection=selection)
    (request,) = transport.requests
    query = dict(request.query)
    seconds = int(query.pop("timeoutSeconds"))
    assert WINDOW_SECONDS[0] <= seconds <= WINDOW_SECONDS[1]
    assert request.path == "/apis/test.example/v1/namespaces/lab/things"
    assert query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "7",
        "labelSelector": "a=b",
        "fieldSelector": "x=y",
    }


async def test_the_lengths_of_windows_differ() -> None:
    transport, rng = StreamingTransport([]), Random(3)
    for _ in range(20):
        async with open_window(transport, THINGS, "7", rng=rng):
            pass
    assert len({dict(request.query)["timeoutSeconds"] for request in transport.requests}) > 10


async def test_partial_objects_are_watched_as_metadata_only() -> None:
    partial = thing() | {"kind": "PartialObjectMetadata"}
    transport = StreamingTransport([line("ADDED", partial)])
    (change,) = await events_of(transport, THING_METADATA)
    assert isinstance(change, Change)
    assert isinstance(change.object, PartialObject)
    assert "as=PartialObjectMetadata;" in transport.requests[0].accept


async def test_a_null_in_a_change_reads_as_absent() -> None:
    document = thing() | {"spec": None}
    (change,) = await events_of(StreamingTransport([line("ADDED", document)]))
    assert isinstance(change, Change)
    assert change.object.spec.size == 0


async def test_half_a_line_at_the_end_is_dropped() -> None:
    transport = StreamingTransport([line("ADDED", thing()), line("ADDED", thing("bellows"))[:-1]])
    assert len(await events_of(transport)) == 1


async def test_unknown_types_and_blank_lines_are_skipped() -> None:
    transport = StreamingTransport(
        [b"\n", b" \r\n", b"{}\n", line("REIMAGINED", thing()), line("ADDED", thing())]
    )
    assert len(await events_of(transport)) == 1


@pytest.mark.parametrize(
    "object_",
    [{}, None, {"metadata": None}, {"metadata": 7}, "what"],
    ids=["empty", "null", "null metadata", "number as metadata", "text"],
)
async def test_a_bookmark_without_metadata_names_no_version(object_: object) -> None:
    assert await events_of(StreamingTransport([line("BOOKMARK", object_)])) == [Bookmark()]


async def test_a_bookmark_with_nulls_is_read() -> None:
    document = {"spec": {"containers": None}, "metadata": {"resourceVersion": "9", "labels": None}}
    assert await events_of(StreamingTransport([line("BOOKMARK", document)])) == [
        Bookmark(resource_version="9")
    ]


STATUS = {"kind": "Status", "status": "Failure"}


@pytest.mark.parametrize(
    ("object_", "error"),
    [
        (STATUS | {"code": 410, "reason": "Expired"}, ExpiredError),
        (STATUS | {"code": 410}, ExpiredError),
        (STATUS | {"reason": "Expired"}, ExpiredError),
        (STATUS | {"reason": "Gone"}, ExpiredError),
        (STATUS | {"code": 429, "reason": "TooManyRequests"}, ThrottledError),
        (STATUS | {"code": 400, "reason": "BadRequest"}, BadRequestError),
        (STATUS | {"code": 500, "reason": "InternalError"}, UnavailableError),
        (STATUS, UnavailableError),
        (STATUS | {"code": "x", "reason": 7}, UnavailableError),
        ({}, UnavailableError),
        (None, UnavailableError),
        ("what", UnavailableError),
    ],
    ids=[
        "code and reason expired",
        "code 410",
        "reason Expired",
        "reason Gone",
        "too many requests",
        "bad request",
        "internal error",
        "empty status",
        "members of wrong types",
        "empty object",
        "null",
        "text",
    ],
)
async def test_an_error_event_of_any_shape_is_an_error_of_the_room(
    object_: object, error: type[ApiError]
) -> None:
    transport = StreamingTransport([line("ERROR", object_), line("ADDED", thing())])
    with pytest.raises(error, match=r"^watch things\.test\.example"):
        await events_of(transport)
    assert transport.is_closed


@pytest.mark.parametrize(
    "broken_line",
    [b"<html>\n", b'{"type": "ADDED", "obj\n', line("ADDED", 7), line("ADDED", thing(size="big"))],  # type: ignore[arg-type]  # what no server should say
    ids=["html", "cut", "no object", "another shape"],
)
async def test_a_whole_line_that_cannot_be_decoded_is_malformed(broken_line: bytes) -> None:
    with pytest.raises(MalformedAnswerError, match=r"^watch things\.test\.example"):
        await events_of(StreamingTransport([broken_line]))


@pytest.mark.parametrize(
    ("object_", "found"),
    [
        (thing() | {"kind": "Stranger"}, "'Stranger'"),
        ({"metadata": thing()["metadata"]}, "'missing'"),
        (thing() | {"kind": "ThingList"}, "'ThingList'"),
        ({"metadata": {"name": "a", "kind": "Thing"}, "kind": "Stranger"}, "'Stranger'"),
    ],
    ids=["another kind", "no kind", "the list's kind", "another kind after its metadata"],
)
async def test_a_change_of_another_kind_is_malformed(object_: dict[str, Any], found: str) -> None:
    with pytest.raises(MalformedAnswerError, match=rf"^watch things.*{found} instead of Thing"):
        await events_of(StreamingTransport([line("ADDED", object_)]))


@pytest.mark.parametrize(
    "text",
    [
        b'{"type":"ADDED","object":{"kind":"Thing","apiVersion":"v1","metadata":{"name":"a"}}}\n',
        b'{"type":"ADDED","object":{"apiVersion":"v1","kind":"Thing","metadata":{"name":"a"}}}\n',
        b'{"object": {"metadata": {"name": "a"}, "kind": "Thing"}, "type": "ADDED"}\n',
    ],
    ids=["as of a built-in kind", "as of a custom kind", "in an unusual order"],
)
async def test_a_change_of_the_kind_is_read_whatever_the_order_of_its_members(
    text: bytes,
) -> None:
    (change,) = await events_of(StreamingTransport([text]))
    assert isinstance(change, Change)
    assert change.object.metadata.name == "a"


async def test_a_whole_object_is_malformed_where_metadata_was_asked_for() -> None:
    with pytest.raises(MalformedAnswerError, match="instead of PartialObjectMetadata"):
        await events_of(StreamingTransport([line("ADDED", thing())]), THING_METADATA)


@pytest.mark.parametrize(
    "broken",
    [UnreachableError("reset"), OutcomeUnknownError("no answer")],
    ids=["unreachable", "outcome unknown"],
)
async def test_a_broken_connection_is_unreachable_because_a_watch_changes_nothing(
    broken: KubeError,
) -> None:
    with pytest.raises(UnreachableError, match=r"^watch things\.test\.example: "):
        await events_of(StreamingTransport([line("ADDED", thing()), broken]))


async def test_a_refusal_is_read_completely_before_the_window_opens() -> None:
    body = codec.encode(STATUS | {"code": 429, "reason": "TooManyRequests"})
    transport = StreamingTransport(
        [body[:10], 1.0, body[10:]], status=429, headers={"retry-after": "4"}
    )
    with pytest.raises(ThrottledError) as caught:
        await events_of(transport)
    assert caught.value.retry_after_seconds == 4
    assert transport.is_closed


async def test_a_silent_connection_is_given_up() -> None:
    transport = StreamingTransport([IDLE_LIMIT_SECONDS - 1, line("ADDED", thing()), 1_000.0])
    with pytest.raises(UnreachableError, match="silent for 75 s"):
        await events_of(transport)
    assert asyncio.get_running_loop().time() == pytest.approx(2 * IDLE_LIMIT_SECONDS - 1, abs=1)


async def test_a_window_that_the_server_does_not_end_in_time_ends_in_order() -> None:
    minute: list[Piece] = [60.0, line("ADDED", thing())]
    transport = StreamingTransport(minute * 100)
    events = await events_of(transport)
    seconds = int(dict(transport.requests[0].query)["timeoutSeconds"])
    assert len(events) == (seconds + OVERTIME_SECONDS) // 60


async def test_a_reader_that_leaves_closes_the_connection() -> None:
    transport = StreamingTransport([line("ADDED", thing()), 1_000.0])
    async with open_window(transport, THINGS, "7", rng=Random(3)) as window:
        await anext(window)
    assert transport.is_body_closed
    assert transport.is_closed


LINES = st.lists(st.binary(max_size=40).map(lambda text: text.replace(b"\n", b"")), max_size=8)


@given(lines=LINES, cuts=st.lists(st.integers(min_value=0, max_value=330)))
def test_lines_are_the_same_wherever_the_chunks_are_cut(
    lines: list[bytes], cuts: list[int]
) -> None:
    text = b"".join(each + b"\n" for each in lines)
    borders = [0, *sorted(cuts), len(text)]
    splitter = Lines()
    found = [each for start, end in pairwise(borders) for each in splitter.feed(text[start:end])]
    assert found == [each for each in lines if each and not each.isspace()]


def test_a_large_line_in_many_chunks_is_copied_once() -> None:
    """Quadratic work would copy it ten thousand times: fifty gigabytes."""
    splitter = Lines()
    for _ in range(10_000):
        assert splitter.feed(b"x" * 1_000) == []
    (whole,) = splitter.feed(b"\n")
    assert len(whole) == 10_000_000
