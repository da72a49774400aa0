from typing import Any

from gpuruntime.bus.pull import INBOXES
from gpuruntime.framework.calls import Call, CallError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds.functions import MOST_WORKERS
from gpuruntime.models.kinds.invocations import State
from gpuruntime.serverless.scaling.consumers import Consumers
from tests.eventually import eventually
from tests.rooms.bus.broker import FUNCTION, Bus
from tests.rooms.worker.invocations import accept
from tests.rooms.worker.workers import ended, working

# More than the broker lists in one answer.
MANY = 1_030


def consumers_of(made: Bus) -> Consumers:
    return Consumers(made.jetstream, made.names, ack_wait_seconds=30.0)


async def config_of(made: Bus, function: str) -> dict[str, Any]:
    info = await made.jetstream.call(f"CONSUMER.INFO.{made.names.invocations}.{function}")
    config: Any = info["config"]
    assert isinstance(config, dict)
    return config


async def delete(made: Bus, function: str) -> None:
    await made.jetstream.call(f"CONSUMER.DELETE.{made.names.invocations}.{function}")


async def change(made: Bus, function: str, **settings: Any) -> JsonObject:
    config = {**await config_of(made, function), **settings}
    return await made.jetstream.call(
        f"CONSUMER.CREATE.{made.names.invocations}.{function}.{config['filter_subject']}",
        {"stream_name": made.names.invocations, "config": config, "action": "update"},
    )


async def test_a_consumer_has_no_bound_on_messages_that_wait_for_a_retry(
    declared: Bus,
) -> None:
    await consumers_of(declared).ensure("new")
    config = await config_of(declared, "new")
    assert config["max_ack_pending"] == -1
    assert config["filter_subject"] == declared.names.invoke("new")


async def test_a_consumer_accepts_the_requests_of_all_its_workers(
    declared: Bus,
) -> None:
    await consumers_of(declared).ensure("new")
    assert (await config_of(declared, "new"))["max_waiting"] >= 10 * MOST_WORKERS * INBOXES


async def test_failing_invocations_do_not_delay_others(declared: Bus) -> None:
    await delete(declared, FUNCTION)
    await consumers_of(declared).ensure(FUNCTION)
    starts: list[tuple[str, int]] = []

    async def handle(call: Call) -> object:
        starts.append((call.invocationID, call.attempt))
        if call.invocationID != "good":
            raise CallError("poison")
        return call.payload

    for name in ("bad-1", "bad-2", "bad-3", "good"):
        await accept(declared, name)
    async with working(declared, handle):
        assert (await ended(declared, "good")).state is State.SUCCEEDED
    # A third attempt starts three seconds after the first.
    assert max(attempt for _, attempt in starts) < 3


async def test_a_bound_that_the_operator_chose_is_kept_by_every_leader(declared: Bus) -> None:
    await consumers_of(declared).ensure("new")
    for bound in (1, 12):
        await change(declared, "new", max_ack_pending=bound)
        await consumers_of(declared).ensure("new")
        assert (await config_of(declared, "new"))["max_ack_pending"] == bound


async def test_a_deleted_consumer_is_missed_and_recreated(declared: Bus) -> None:
    consumers = consumers_of(declared)
    for function in ("one", "two"):
        await consumers.ensure(function)
    await delete(declared, "one")
    assert (await consumers.survey()).gone == ("one",)
    await consumers.ensure("one")
    assert (await consumers.survey()).gone == ()
    assert await config_of(declared, "one")


async def test_the_broker_reports_a_deleted_consumer_on_its_advisory_subject(
    declared: Bus,
) -> None:
    await consumers_of(declared).ensure("one")
    told: list[str] = []
    lost = declared.names.lost_consumers
    async with declared.connection.listening(lost, lambda message: told.append(message.subject)):
        await delete(declared, "one")
        await eventually(lambda: told)
    assert told[0].rpartition(".")[2] == "one"


async def test_consumers_that_were_not_ensured_here_are_listed(declared: Bus) -> None:
    consumers = consumers_of(declared)
    await consumers.ensure("one")
    assert (await consumers.survey()).others == (FUNCTION,)


async def test_a_consumer_whose_name_is_no_function_name_is_ignored(declared: Bus) -> None:
    stream, subject = declared.names.invocations, declared.names.invoke("elsewhere")
    config = {"durable_name": "Onlooker", "filter_subject": subject, "ack_policy": "explicit"}
    await declared.jetstream.call(
        f"CONSUMER.CREATE.{stream}.Onlooker.{subject}",
        {"stream_name": stream, "config": config},
    )
    assert (await consumers_of(declared).survey()).others == (FUNCTION,)


async def test_removing_a_missing_consumer_succeeds(declared: Bus) -> None:
    consumers = consumers_of(declared)
    await consumers.ensure("one")
    await consumers.remove("one")
    await consumers.remove("one")
    assert (await consumers.survey()).gone == ()


async def test_more_consumers_than_one_answer_lists_are_all_found(declared: Bus) -> None:
    consumers = consumers_of(declared)
    for number in range(MANY):
        await consumers.ensure(f"f{number}")
    await delete(declared, "f1029")
    assert (await consumers.survey()).gone == ("f1029",)
