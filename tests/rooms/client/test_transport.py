"""Requests to servers that fail: which are retried, and which answers are trusted."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpuruntime.client import Invoke, NewStock
from gpuruntime.client.client import Client, connect
from gpuruntime.client.errors import (
    BusyError,
    DeadlineError,
    GatewayError,
    LostAnswerError,
    NotFoundError,
    UnreachableServerError,
    UnreadableAnswerError,
    UntrustedServerError,
)
from gpuruntime.client.options import Options
from gpuruntime.errors import ConfigurationError
from tests.rooms.client.servers import (
    Answerer,
    Script,
    answer,
    asking,
    client_of,
    lost,
    page,
    problem,
    raw,
    silent,
)
from tests.rooms.client.test_messages import JOB
from tests.rooms.kube.servers import Authority, serving

pytestmark = pytest.mark.looptime

STOCK = NewStock(specName="g1.1", replicas=2)
BUSY = problem(503, "service_unavailable", Retry_After="3")


async def change(client: Client) -> None:
    await client.pools.update("p", {"replicas": 1})


async def test_a_busy_server_is_asked_again_after_its_retry_after() -> None:
    script = Script(BUSY, problem(429, "too_many_requests"), answer(JOB))
    async with asking(script) as client:
        assert (await client.stock.job("one")).data.requested == 2
    first, second, third = script.moments
    assert 3.0 <= second - first < 3.5
    assert 0.1 < third - second < 1.0


async def test_a_body_that_came_too_slowly_is_sent_again() -> None:
    script = Script(problem(408, "body_timeout"), answer(JOB))
    async with asking(script) as client:
        assert (await client.stock.job("one")).data.requested == 2
    assert len(script.received) == 2


async def test_retries_end_when_patience_is_over() -> None:
    script = Script(BUSY)
    async with asking(script, most_attempts=4) as client:
        with pytest.raises(BusyError) as caught:
            await client.stock.job("one")
    assert len(script.received) == 4
    assert caught.value.code == "service_unavailable"


async def test_a_retry_after_beyond_patience_is_not_awaited() -> None:
    script = Script(problem(429, "queue_full", Retry_After="600"))
    async with asking(script) as client:
        with pytest.raises(BusyError):
            await client.stock.job("one")
    assert script.moments[-1] < 1


@pytest.mark.parametrize(
    "failure",
    [lost, problem(504, "timeout"), raw(b"", 502)],
    ids=["lost answer", "deadline", "gateway"],
)
async def test_a_creation_is_retried_as_the_same_operation(failure: Answerer) -> None:
    script = Script(failure, failure, answer(JOB, 202))
    async with asking(script) as client:
        await client.stock.seed(STOCK)
    operations = [each.document["operationID"] for each in script.received]
    assert len(operations) == 3
    assert len(set(operations)) == 1


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (lost, LostAnswerError),
        (problem(504, "timeout"), DeadlineError),
        (raw(b"no", 503, content_type="text/html"), GatewayError),
    ],
    ids=["lost answer", "deadline", "gateway"],
)
async def test_a_change_with_an_uncertain_outcome_is_not_retried(
    failure: Answerer, kind: type[Exception]
) -> None:
    script = Script(failure)
    async with asking(script) as client:
        with pytest.raises(kind):
            await change(client)
        with pytest.raises(kind):
            await client.units.delete("u")
    assert [each.method for each in script.received] == ["PUT", "DELETE"]


async def test_aiohttp_does_not_repeat_a_change_when_a_kept_connection_breaks() -> None:
    script = Script(answer(JOB), lost)
    async with asking(script) as client:
        await client.stock.job("one")
        with pytest.raises(LostAnswerError):
            await change(client)
    assert [each.method for each in script.received] == ["GET", "PUT"]


async def test_a_change_that_was_refused_for_now_is_retried() -> None:
    script = Script(BUSY, problem(404, "stockpool_not_found"))
    async with asking(script) as client:
        with pytest.raises(NotFoundError):
            await change(client)
    assert len(script.received) == 2


async def test_a_synchronous_call_is_repeated_under_its_id_while_its_outcome_is_unknown() -> None:
    script = Script(lost, problem(504, "timeout"))
    async with asking(script) as client:
        with pytest.raises(DeadlineError):
            await client.invocations.call(Invoke(serverlessRequestID="f"))
    first, *repeated = (each.document for each in script.received)
    assert repeated
    assert all(each == first for each in repeated)
    assert (first["mode"], bool(first["invocationID"])) == ("sync", True)


async def test_a_silent_server_counts_as_a_lost_answer() -> None:
    script = Script(silent)
    async with asking(script, timeout_seconds=5, most_attempts=2) as client:
        with pytest.raises(LostAnswerError, match="no answer within 5 s"):
            await client.stock.job("one")
    assert len(script.received) == 2


async def test_an_unreachable_server_is_reported_soon() -> None:
    async with client_of("http://127.0.0.1:1") as client:
        with pytest.raises(UnreachableServerError, match=r"^http://127\.0\.0\.1:1: refused$"):
            await client.health()


async def test_an_endless_answer_is_refused_at_the_limit() -> None:
    script = Script(raw(b"x" * 300_000))
    async with asking(script, most_bytes=100_000) as client:
        with pytest.raises(UnreadableAnswerError, match="larger than 100000 bytes"):
            await client.health()


@pytest.mark.parametrize(
    "hostile",
    [
        raw(b"<html>", content_type="text/html"),
        raw(b"\x1f\x8b", Content_Encoding="gzip"),
        raw(b'{"data": {}}'),
        raw(b"", 302, Location="http://127.0.0.1:1/elsewhere"),
    ],
    ids=["html", "compressed", "other members", "redirect"],
)
async def test_an_answer_that_is_not_the_apis_is_unreadable(hostile: Answerer) -> None:
    script = Script(hostile)
    async with asking(script) as client:
        with pytest.raises(UnreadableAnswerError):
            await client.health()
    assert len(script.received) == 1


async def test_a_cursor_that_comes_twice_ends_the_pages() -> None:
    script = Script(page([JOB], "a"), page([JOB], "b"), page([JOB], "a"))
    async with asking(script) as client:
        with pytest.raises(UnreadableAnswerError, match="repeat a cursor"):
            [each async for each in client.stock.jobs()]
    assert len(script.received) == 3


async def test_a_token_file_is_read_for_every_request(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    script = Script(answer(JOB))
    async with asking(script, token_file=str(file)) as client:
        await client.stock.job("one")
        file.write_text("second\n")
        await client.stock.job("one")
    sent = [each.headers["Authorization"] for each in script.received]
    assert sent == ["Bearer first", "Bearer second"]


async def test_a_token_is_one_word_and_appears_in_no_message() -> None:
    script = Script(answer(JOB))
    async with asking(script, token="hush hush\r\nX: y") as client:
        with pytest.raises(ConfigurationError) as caught:
            await client.stock.job("one")
    assert "hush" not in str(caught.value)
    assert script.received == []
    assert "hush" not in repr(Options(token="hush"))


async def test_a_server_is_trusted_by_the_given_ca(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("server", host="localhost")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(issued.file, issued.key)
    async with serving(Script(answer(JOB)), tls) as address:
        named = address.replace("127.0.0.1", "localhost")
        ca_file = str(authority.certificate.file)
        async with client_of(named, ca_file=ca_file) as client:
            assert (await client.stock.job("one")).data.requested == 2
        async with client_of(named) as client:
            with pytest.raises(UntrustedServerError):
                await client.stock.job("one")


@pytest.mark.parametrize(
    "server",
    ["", "gpu.example.com", "ftp://a", "http://", "http://a:b", "http://u@a", "http://a?b"],
)
async def test_a_server_that_is_not_a_url_is_rejected(server: str) -> None:
    with pytest.raises(ConfigurationError, match="must be such as"):
        async with connect(Options(server=server)):
            pass


@pytest.mark.parametrize("content", ["", "no certificate"])
async def test_a_file_that_is_not_a_ca_is_reported(tmp_path: Path, content: str) -> None:
    file = tmp_path / "ca"
    if content:
        file.write_text(content)
    with pytest.raises(ConfigurationError, match="CA file"):
        async with connect(Options(ca_file=str(file))):
            pass


async def test_an_upload_that_the_server_never_asks_for_times_out() -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"never"

    async with await asyncio.start_server(mute, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with client_of(address, timeout_seconds=5) as client:
            with pytest.raises(LostAnswerError, match="no answer within 5 s"):
                await client.storages.files("w").write("a", pieces())
    assert asyncio.get_running_loop().time() == pytest.approx(5, abs=1)


async def test_a_slow_upload_may_exceed_the_timeout() -> None:
    async def slow() -> AsyncIterator[bytes]:
        for _ in range(4):
            await asyncio.sleep(10)
            yield b"x"

    script = Script(raw(b"", 201))
    async with asking(script, timeout_seconds=5) as client:
        await client.storages.files("w").write("a", slow())
    assert script.received[0].body == b"xxxx"
