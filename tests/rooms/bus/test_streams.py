import pytest
import structlog

from gpuruntime.bus.errors import RefusedError, UnfitError
from gpuruntime.bus.jetstream import JetStream
from gpuruntime.bus.names import Names, worker_rights
from gpuruntime.bus.provisioning import declare_consumer, declare_stream
from gpuruntime.bus.streams import (
    consumer_declaration,
    declarations,
    differences,
    results_declaration,
)
from gpuruntime.models.encoding.json import JsonObject, JsonValue
from tests.rooms.bus.broker import FUNCTION, SMALL, Bus, broker, bus, connection

SECOND = 1_000_000_000


async def config_of(bus: Bus, verb: str) -> JsonObject:
    answer = await bus.jetstream.call(verb)
    config = answer["config"]
    assert isinstance(config, dict)
    return config


async def test_a_new_stream_or_consumer_has_no_differences(declared: Bus) -> None:
    for declaration in declarations(declared.names, SMALL):
        config = await config_of(declared, f"STREAM.INFO.{declaration.name}")
        assert differences(declaration, config) == ()
    again = consumer_declaration(declared.names, FUNCTION, ack_wait_seconds=30)
    config = await config_of(declared, f"CONSUMER.INFO.{declared.names.invocations}.{FUNCTION}")
    assert differences(again, config) == ()


async def test_the_consumer_of_all_records_has_its_declared_settings(declared: Bus) -> None:
    stream = declared.names.states
    declaration = results_declaration(declared.names, ack_wait_seconds=30)
    await declare_consumer(declared.jetstream, stream, declaration)
    config = await config_of(declared, f"CONSUMER.INFO.{stream}.{declaration.name}")
    assert differences(declaration, config) == ()
    assert declared.names.next_record.endswith(f".{stream}.{declaration.name}")


async def test_an_operators_setting_survives_the_next_start(declared: Bus) -> None:
    name = declared.names.invocations
    config = await config_of(declared, f"STREAM.INFO.{name}")
    await declared.jetstream.call(f"STREAM.UPDATE.{name}", {**config, "max_msgs": 77})
    for declaration in declarations(declared.names, SMALL):
        await declare_stream(declared.jetstream, declaration)
    assert (await config_of(declared, f"STREAM.INFO.{name}"))["max_msgs"] == 77


async def without_direct_reads(made: Bus, **changes: JsonValue) -> None:
    """Leave the queue as an earlier version created it, and changed since by an operator."""
    name = made.names.invocations
    config = await config_of(made, f"STREAM.INFO.{name}")
    await made.jetstream.call(
        f"STREAM.UPDATE.{name}", {**config, "allow_direct": False, **changes}
    )


async def test_an_earlier_queue_gets_direct_reads_and_keeps_all_else(declared: Bus) -> None:
    await without_direct_reads(declared, max_msgs=77)
    [queue, *_] = declarations(declared.names, SMALL)
    await declare_stream(declared.jetstream, queue)
    config = await config_of(declared, f"STREAM.INFO.{queue.name}")
    assert (config["allow_direct"], config["max_msgs"]) == (True, 77)
    assert differences(queue, config) == ("max_msgs",)


async def test_a_queue_that_a_login_may_not_update_is_used_as_it_is() -> None:
    """The broker drops the request of such a login, so it costs one wait for an answer."""
    lines = (
        "authorization { users: [ { user: owner, password: x }, { user: api, password: x, "
        'permissions: { publish: { deny: ["$JS.API.STREAM.UPDATE.>"] } } } ] }'
    )
    with broker(lines) as started:
        address = started.url.replace("//", "//{}:x@")
        async with (
            bus(address.format("owner"), "runtime") as owner,
            connection(address.format("api")) as limited,
        ):
            await without_direct_reads(owner)
            [queue, *_] = declarations(owner.names, SMALL)
            with structlog.testing.capture_logs() as logged:
                await declare_stream(JetStream(limited), queue)
            config = await config_of(owner, f"STREAM.INFO.{queue.name}")
    [kept] = [line for line in logged if line["event"] == "stream not updated"]
    assert (kept["stream"], kept["allow_direct"]) == (queue.name, True)
    assert differences(queue, config) == ("allow_direct",)


async def test_a_consumers_changed_ack_wait_is_kept(declared: Bus) -> None:
    stream = declared.names.invocations
    config = await config_of(declared, f"CONSUMER.INFO.{stream}.{FUNCTION}")
    await declared.jetstream.call(
        f"CONSUMER.CREATE.{stream}.{FUNCTION}.{config['filter_subject']}",
        {
            "stream_name": stream,
            "config": {**config, "ack_wait": 77 * SECOND},
            "action": "update",
        },
    )
    again = consumer_declaration(declared.names, FUNCTION, ack_wait_seconds=30)
    await declare_consumer(declared.jetstream, stream, again)
    kept = await config_of(declared, f"CONSUMER.INFO.{stream}.{FUNCTION}")
    assert kept["ack_wait"] == 77 * SECOND


async def test_a_stream_that_would_lose_messages_is_refused_with_the_remedy(
    declared: Bus,
) -> None:
    wanted = declarations(Names(f"{declared.names.prefix}x"), SMALL)[0]
    await declared.jetstream.call(
        f"STREAM.CREATE.{wanted.name}",
        {**wanted.config, "discard": "old", "discard_new_per_subject": False},
    )
    with pytest.raises(
        UnfitError, match=rf"stream {wanted.name} .* set discard: new, discard_new"
    ):
        await declare_stream(declared.jetstream, wanted)


async def test_a_consumer_with_a_limit_of_deliveries_is_refused(declared: Bus) -> None:
    stream = declared.names.invocations
    wanted = consumer_declaration(declared.names, "lossy", ack_wait_seconds=30)
    await declared.jetstream.call(
        f"CONSUMER.CREATE.{stream}.lossy.{wanted.config['filter_subject']}",
        {"stream_name": stream, "config": {**wanted.config, "max_deliver": 3}, "action": "create"},
    )
    with pytest.raises(UnfitError, match="set max_deliver: -1"):
        await declare_consumer(declared.jetstream, stream, wanted)


async def test_a_workers_user_has_rights_for_its_own_function_only() -> None:
    names = Names("runtime")
    rights = worker_rights(names, "mine")
    lines = (
        "authorization { users: [ { user: owner, password: x }, { user: mine, password: x,"
        f" permissions: {{ publish: {list(rights.publish)}, subscribe: {list(rights.subscribe)} }}"
        " } ] }"
    ).replace("'", '"')
    with broker(lines) as started:
        address = started.url.replace("//", "//{}:x@")
        async with (
            connection(address.format("owner")) as owner,
            connection(address.format("mine"), inbox_prefix=names.inbox("mine")) as worker,
        ):
            jetstream = JetStream(owner)
            for declaration in declarations(names, SMALL):
                await declare_stream(jetstream, declaration)
            own = JetStream(worker)
            short = {"message_id": "1", "within_seconds": 0.3}
            await own.publish(names.state("mine", "1"), b"{}", message_id="1")
            assert await own.last(names.states, names.state("mine", "1")) is not None
            for subject in (
                names.state("other", "1"),
                names.invoke("mine"),
                names.invoke("other"),
            ):
                with pytest.raises(Exception, match="not stored"):
                    await own.publish(subject, b"{}", **short)  # type: ignore[arg-type]  # two options
            info = await jetstream.call(f"STREAM.INFO.{names.states}")
            assert info["state"]["messages"] == 1  # type: ignore[index,call-overload]  # plain JSON


async def test_another_refusal_is_raised_to_the_caller(declared: Bus) -> None:
    wanted = consumer_declaration(declared.names, "echo2", ack_wait_seconds=30)
    with pytest.raises(RefusedError):
        await declare_consumer(declared.jetstream, "NOWHERE", wanted)
