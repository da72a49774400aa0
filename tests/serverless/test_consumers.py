from typing import Any

from gpuruntime.models.json import JsonObject
from gpuruntime.serverless.consumers import Consumers
from tests.bus.broker import FUNCTION, Bus, eventually

# More than the broker names at a time.
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


async def test_a_functions_consumer_takes_twice_what_its_workers_can_hold(declared: Bus) -> None:
    await consumers_of(declared).ensure("new", most_in_hand=6)
    config = await config_of(declared, "new")
    assert config["max_ack_pending"] == 12
    assert config["filter_subject"] == declared.names.invoke("new")


async def test_it_follows_a_function_that_gets_more_workers(declared: Bus) -> None:
    consumers = consumers_of(declared)
    await consumers.ensure("new", most_in_hand=6)
    await consumers.ensure("new", most_in_hand=50)
    assert (await config_of(declared, "new"))["max_ack_pending"] == 100
    await consumers.ensure("new", most_in_hand=6)
    assert (await config_of(declared, "new"))["max_ack_pending"] == 100


async def test_what_its_operator_chose_stays_when_it_is_widened(declared: Bus) -> None:
    await consumers_of(declared).ensure("new", most_in_hand=6)
    await change(declared, "new", ack_wait=90_000_000_000)
    await consumers_of(declared).ensure("new", most_in_hand=9)
    config = await config_of(declared, "new")
    assert (config["ack_wait"], config["max_ack_pending"]) == (90_000_000_000, 18)


async def test_one_without_a_bound_is_left_alone(declared: Bus) -> None:
    await change(declared, FUNCTION, max_ack_pending=-1)
    await consumers_of(declared).ensure(FUNCTION, most_in_hand=500)
    assert (await config_of(declared, FUNCTION))["max_ack_pending"] == -1


async def test_one_that_was_deleted_is_missed_and_made_again(declared: Bus) -> None:
    consumers = consumers_of(declared)
    for function in ("one", "two"):
        await consumers.ensure(function, most_in_hand=1)
    await delete(declared, "one")
    assert (await consumers.survey()).gone == ("one",)
    await consumers.ensure("one", most_in_hand=1)
    assert (await consumers.survey()).gone == ()
    assert await config_of(declared, "one")


async def test_the_broker_tells_of_a_deleted_consumer_on_the_subject_for_it(
    declared: Bus,
) -> None:
    await consumers_of(declared).ensure("one", most_in_hand=1)
    told: list[str] = []
    lost = declared.names.lost_consumers
    async with declared.connection.listening(lost, lambda message: told.append(message.subject)):
        await delete(declared, "one")
        await eventually(lambda: bool(told))
    assert told[0].rpartition(".")[2] == "one"


async def test_consumers_that_nobody_has_asked_for_are_named_too(declared: Bus) -> None:
    consumers = consumers_of(declared)
    await consumers.ensure("one", most_in_hand=1)
    assert (await consumers.survey()).others == (FUNCTION,)


async def test_a_consumer_that_can_be_no_functions_is_let_be(declared: Bus) -> None:
    stream, subject = declared.names.invocations, declared.names.invoke("elsewhere")
    config = {"durable_name": "Onlooker", "filter_subject": subject, "ack_policy": "explicit"}
    await declared.jetstream.call(
        f"CONSUMER.CREATE.{stream}.Onlooker.{subject}",
        {"stream_name": stream, "config": config},
    )
    assert (await consumers_of(declared).survey()).others == (FUNCTION,)


async def test_removing_one_that_is_gone_is_no_failure(declared: Bus) -> None:
    consumers = consumers_of(declared)
    await consumers.ensure("one", most_in_hand=1)
    await consumers.remove("one")
    await consumers.remove("one")
    assert (await consumers.survey()).gone == ()


async def test_more_consumers_than_one_answer_names_are_all_known(declared: Bus) -> None:
    consumers = consumers_of(declared)
    for number in range(MANY):
        await consumers.ensure(f"f{number}", most_in_hand=1)
    await delete(declared, "f1029")
    assert (await consumers.survey()).gone == ("f1029",)
