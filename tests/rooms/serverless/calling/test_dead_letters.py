"""Dead letters: listed in pages, discarded once, and redriven as a new series."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import count
from operator import not_
from typing import Any

import attrs
import msgspec
import pytest
import pytest_asyncio

from gpuruntime.bus.messages import NULL, DeadLetter, Invocation, Record, encode, read
from gpuruntime.bus.names import dead_letter_id
from gpuruntime.bus.records import ConflictError
from gpuruntime.framework.calls import Call
from gpuruntime.models.kinds.invocations import FailureClass, State
from gpuruntime.operations.lookup.scopes import Scope
from gpuruntime.serverless.calling.acceptance import Accepted
from gpuruntime.serverless.calling.dead_letters import MOST_PAGE_BYTES
from gpuruntime.serverless.errors import (
    DeadLetterNotFoundError,
    FunctionNotFoundError,
    InvocationConflictError,
    QueueFullError,
)
from tests.eventually import eventually
from tests.rooms.bus.broker import FUNCTION, SMALL, Broker
from tests.rooms.serverless.calling.ingress import Site, asked, site, wall_clock
from tests.rooms.serverless.calling.test_acceptance import fill_records
from tests.rooms.worker.conftest import ACK_WAIT_SECONDS
from tests.rooms.worker.workers import ended, until_empty, working

PREFIXES = count(1)


@pytest_asyncio.fixture
async def api(shared: Broker) -> AsyncIterator[Site]:
    async with site(shared.url, f"d{next(PREFIXES)}", ack_wait_seconds=ACK_WAIT_SECONDS) as made:
        yield made


class Weak:
    """A function that fails until it is repaired."""

    def __init__(self) -> None:
        self.is_mended = False
        self.starts: Counter[tuple[str, int]] = Counter()

    async def handle(self, call: Call) -> object:
        self.starts[(call.invocationID, call.attempt)] += 1
        if not self.is_mended:
            raise ValueError("not yet")
        return call.payload


async def die(api: Site, name: str = "one", **changes: Any) -> DeadLetter:
    """Leave a dead letter as a worker does: the letter, the record, and no message."""
    accepted = await api.ingress.acceptance.accept(asked(name))
    ((_, message), *_) = [each for each in await api.messages() if each[1].invocationID == name]
    await api.bus.jetstream.delete(api.bus.names.invocations, accepted.sequence)
    letter = await bury(api, message, **changes)
    await turn(api, name, state=State.DEAD_LETTERED, attempt=5, error="tired")
    return letter


async def die_for(api: Site, **changes: Any) -> DeadLetter:
    """Return a letter of a function that another unit declared then."""
    letter = await die(api)
    dead = attrs.evolve(read(bytes(letter.invocation), Invocation), **changes)
    changed = attrs.evolve(letter, invocation=msgspec.Raw(encode(dead)))
    subject = api.bus.names.dead_letter(FUNCTION, letter.deadLetterID)
    await api.bus.jetstream.publish(subject, encode(changed), message_id="changed")
    return changed


async def bury(api: Site, message: Invocation, **changes: Any) -> DeadLetter:
    letter = DeadLetter(
        deadLetterID=dead_letter_id(FUNCTION, message.invocationID, message.series),
        serverlessRequestID=FUNCTION,
        invocationID=message.invocationID,
        series=message.series,
        attempt=5,
        failureClass=FailureClass.RETRY_EXHAUSTED,
        error="tired",
        invocation=msgspec.Raw(encode(message)),
        deadAt=wall_clock(),
    )
    letter = attrs.evolve(letter, **changes)
    subject = api.bus.names.dead_letter(FUNCTION, letter.deadLetterID)
    await api.bus.jetstream.publish(subject, encode(letter), message_id=letter.deadLetterID)
    return letter


async def turn(api: Site, name: str = "one", **changes: Any) -> Record:
    stored = await api.bus.records.read_latest(FUNCTION, name)
    assert stored is not None
    changed = attrs.evolve(stored.record, **changes)
    return (await api.bus.records.write(changed, expected=stored.revision)).record


async def names_of(api: Site, function: str = "") -> list[str]:
    page = await api.ingress.dead_letters.page(function=function, limit=100, after=0)
    return [letter.invocationID for letter in page.letters]


async def redrive(api: Site, letter: DeadLetter) -> Accepted:
    return await api.ingress.dead_letters.redrive(letter.deadLetterID)


async def test_a_dead_invocation_is_listed_redriven_and_run_with_all_attempts(
    api: Site,
) -> None:
    weak = Weak()
    async with working(api.bus, weak.handle, max_attempts=1):
        await api.ingress.acceptance.accept(asked())
        assert (await ended(api.bus, "one")).state is State.DEAD_LETTERED
        page = await api.ingress.dead_letters.page(limit=10, after=0)
        (letter,) = page.letters
        assert (letter.invocationID, letter.failureClass) == ("one", FailureClass.FRAMEWORK_ERROR)
        assert bytes(letter.invocation) == bytes(NULL)
        weak.is_mended = True
        accepted = await redrive(api, letter)
        assert (accepted.record.series, accepted.is_duplicate) == (2, False)
        record = await ended(api.bus, "one")
    assert (record.state, record.series, record.attempt) == (State.SUCCEEDED, 2, 1)
    assert weak.starts == {("one", 1): 2}
    assert await names_of(api) == []
    await until_empty(api.bus)


async def test_a_redrive_rejected_by_a_full_stream_of_records_leaves_the_letter(
    api: Site,
) -> None:
    letter = await die(api)
    stored = await api.bus.records.read_latest(FUNCTION, "one")
    assert stored is not None
    await api.bus.records.delete(stored)
    await api.ingress.acceptance.accept(asked("other"))
    await fill_records(api)
    with pytest.raises(QueueFullError):
        await redrive(api, letter)
    assert await names_of(api) == ["one"]


async def test_many_redrives_at_once_run_the_invocation_once(api: Site) -> None:
    letter = await die(api)
    weak = Weak()
    weak.is_mended = True

    async def again() -> bool:
        try:
            await redrive(api, letter)
        except DeadLetterNotFoundError:
            return False
        return True

    async with asyncio.TaskGroup() as tasks:
        told = [tasks.create_task(again()) for _ in range(8)]
    assert any(each.result() for each in told)
    async with working(api.bus, weak.handle):
        assert (await ended(api.bus, "one")).series == 2
        await until_empty(api.bus)
    assert weak.starts == {("one", 1): 1}
    assert await names_of(api) == []


async def test_a_redriven_invocation_belongs_to_the_present_declarer(api: Site) -> None:
    letter = await die_for(api, declarer="earlier")
    declared = await api.ingress.functions.find(FUNCTION)
    record = (await redrive(api, letter)).record
    ((_, message),) = await api.messages()
    assert record.declarer == message.declarer == declared.uid


async def test_an_invocation_of_another_tenants_function_is_not_redriven(api: Site) -> None:
    letter = await die_for(api, declarer="earlier", tenant="team-a")
    with pytest.raises(InvocationConflictError, match="another tenant's function"):
        await redrive(api, letter)
    assert await api.messages() == []


async def test_a_redriven_invocation_has_its_whole_lifetime_again(api: Site) -> None:
    letter = await die(api)
    await turn(api, deadlineAt=wall_clock() - timedelta(hours=2))
    before = wall_clock()
    record = (await redrive(api, letter)).record
    assert record.acceptedAt >= before
    assert record.deadlineAt - record.acceptedAt == timedelta(hours=1)
    ((_, message),) = await api.messages()
    assert (message.series, message.deadlineAt) == (2, record.deadlineAt)
    assert bytes(message.payload) == b'{"n":1}'


async def test_pages_follow_each_other_oldest_first(api: Site) -> None:
    for name in "abcde":
        await die(api, name)
    seen: list[str] = []
    after, sizes = 0, []
    while True:
        page = await api.ingress.dead_letters.page(function=FUNCTION, limit=2, after=after)
        seen += [letter.invocationID for letter in page.letters]
        sizes.append(len(page.letters))
        after = page.next
        if not after:
            break
    assert (seen, sizes) == (list("abcde"), [2, 2, 1])
    assert await names_of(api, "other") == []


async def test_a_long_page_is_read_with_one_request(api: Site) -> None:
    await api.ingress.acceptance.accept(asked())
    ((_, message),) = await api.messages()
    for number in range(40):
        await bury(api, attrs.evolve(message, invocationID=f"n{number}"))
    asked_for: list[str] = []
    heard = api.bus.connection.listening("$JS.API.>", lambda told: asked_for.append(told.subject))
    async with heard:
        assert len(await names_of(api)) == 40
        await eventually(lambda: asked_for)
    assert len(asked_for) == 1


async def test_a_page_of_long_payloads_is_short_and_has_a_next_page(api: Site) -> None:
    await api.ingress.acceptance.accept(asked(payload="x" * 1_000_000))
    ((_, message),) = await api.messages()
    count = MOST_PAGE_BYTES // 1_000_000 + 4
    for number in range(count):
        await bury(api, attrs.evolve(message, invocationID=f"n{number}"))
    page = await api.ingress.dead_letters.page(limit=100, after=0)
    assert 1 < len(page.letters) < count
    rest = await api.ingress.dead_letters.page(limit=100, after=page.next)
    assert (len(page.letters) + len(rest.letters), rest.next) == (count, 0)


async def test_a_malformed_or_misplaced_letter_is_skipped(api: Site) -> None:
    letter = await die(api)
    names = api.bus.names
    await api.bus.jetstream.publish(names.dead_letter(FUNCTION, "dl-" + "0" * 24), b"{]")
    await api.bus.jetstream.publish(
        names.dead_letter("other", letter.deadLetterID), encode(letter)
    )
    assert await names_of(api) == ["one"]


async def test_a_discarded_letter_is_gone_and_cannot_be_discarded_again(api: Site) -> None:
    letter = await die(api)
    await api.ingress.dead_letters.discard(letter.deadLetterID)
    assert await names_of(api) == []
    for act in (api.ingress.dead_letters.discard, api.ingress.dead_letters.redrive):
        with pytest.raises(DeadLetterNotFoundError):
            await act(letter.deadLetterID)
    assert await api.state("one") == State.DEAD_LETTERED


async def test_an_invocation_without_a_record_is_redriven(api: Site) -> None:
    letter = await die(api)
    stored = await api.bus.records.read_latest(FUNCTION, "one")
    assert stored is not None
    await api.bus.records.delete(stored)
    assert (await redrive(api, letter)).record.series == 2
    assert await api.state("one") == State.QUEUED


@pytest.mark.parametrize("state", [State.QUEUED, State.EXPIRED])
async def test_a_redrive_that_never_reached_the_queue_can_be_repeated(
    api: Site, state: State
) -> None:
    letter = await die(api)
    await turn(api, state=state, series=2, attempt=0)
    accepted = await redrive(api, letter)
    assert (accepted.record.series, accepted.record.state) == (2, State.QUEUED)
    assert len(await api.messages()) == 1
    assert await names_of(api) == []


async def test_a_record_that_another_redrive_has_sent_is_not_restored(api: Site) -> None:
    """The first redrive found the queue full, and restores the record slowly."""
    letter = await die(api)
    dead = await api.bus.records.read_latest(FUNCTION, "one")
    await turn(api, state=State.QUEUED, series=2, attempt=0)
    begun = await api.bus.records.read_latest(FUNCTION, "one")
    assert dead is not None
    assert begun is not None
    await redrive(api, letter)
    with pytest.raises(ConflictError):
        await api.bus.records.write(dead.record, expected=begun.revision)


async def test_a_redrive_that_was_completed_is_reported_and_not_repeated(api: Site) -> None:
    letter = await die(api)
    await turn(api, state=State.SUCCEEDED, series=2, attempt=1)
    accepted = await redrive(api, letter)
    assert (accepted.is_duplicate, accepted.record.state) == (True, State.SUCCEEDED)
    assert await api.messages() == []
    assert await names_of(api) == []


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING])
async def test_only_a_dead_lettered_invocation_is_redriven(api: Site, state: State) -> None:
    letter = await die(api)
    await turn(api, state=state)
    with pytest.raises(InvocationConflictError, match=f"is {state}, not dead"):
        await redrive(api, letter)
    assert await names_of(api) == ["one"]


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELLED, State.EXPIRED])
async def test_a_redrive_discards_the_letter_of_an_invocation_that_ended_otherwise(
    api: Site, state: State
) -> None:
    letter = await die(api)
    await turn(api, state=state)
    with pytest.raises(InvocationConflictError, match=f"is {state}, not dead: .* discarded"):
        await redrive(api, letter)
    assert await names_of(api) == []
    assert await api.state("one") == state


async def test_a_withdrawn_letter_is_neither_listed_nor_redriven(api: Site) -> None:
    letter = await die(api)
    subject = api.bus.names.dead_letter(FUNCTION, letter.deadLetterID)
    await api.bus.jetstream.publish(subject, b"", message_id="withdrawn")
    assert await names_of(api) == []
    with pytest.raises(DeadLetterNotFoundError):
        await redrive(api, letter)


async def test_a_later_invocation_with_the_id_is_left_alone(api: Site) -> None:
    letter = await die(api)
    await turn(api, requestHash="another")
    with pytest.raises(InvocationConflictError, match="a later one"):
        await redrive(api, letter)
    assert await api.messages() == []


async def test_a_letter_without_its_invocation_cannot_be_redriven(api: Site) -> None:
    letter = await die(api, invocation=NULL)
    with pytest.raises(InvocationConflictError, match="discard it"):
        await redrive(api, letter)


async def test_letters_of_a_deleted_function_are_kept(api: Site) -> None:
    letter = await die(api)
    path = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/runtime-instance/gpuunits/unit-of-echo"
    api.cluster.call("DELETE", path)
    await eventually(api.replica.units.store.values, not_)
    with pytest.raises(FunctionNotFoundError):
        await redrive(api, letter)
    assert await names_of(api) == ["one"]


async def test_a_full_queue_leaves_the_letter_and_the_dead_record(shared: Broker) -> None:
    narrow = attrs.evolve(SMALL, most_queued_per_function=1)
    async with site(shared.url, f"d{next(PREFIXES)}", streams=narrow) as api:
        letter = await die(api)
        await api.ingress.acceptance.accept(asked("two"))
        with pytest.raises(QueueFullError):
            await redrive(api, letter)
        assert await api.state("one") == State.DEAD_LETTERED
        assert await names_of(api) == ["one"]
        ((sequence, _),) = await api.messages()
        await api.bus.jetstream.delete(api.bus.names.invocations, sequence)
        assert (await redrive(api, letter)).record.series == 2


async def test_a_letter_of_another_tenants_function_is_not_found(api: Site) -> None:
    letter = await die(api)
    scope = Scope(frozenset({"somebody"}))
    for use in (api.ingress.dead_letters.discard, api.ingress.dead_letters.redrive):
        with pytest.raises(DeadLetterNotFoundError):
            await use(letter.deadLetterID, scope)
    await api.ingress.dead_letters.discard(letter.deadLetterID)
