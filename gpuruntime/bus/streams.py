"""Our streams and consumers: their required settings, and those the operator may choose."""

from collections.abc import Mapping
from typing import Final

import attrs

from gpuruntime.bus.names import RESULTS, Names
from gpuruntime.models.encoding.json import JsonObject, JsonValue

_SECOND: Final = 1_000_000_000
# The broker silently drops requests beyond this number, and it cannot be changed later. It is far
# more than two requests of a thousand workers, including those of lost connections.
MOST_WAITING: Final = 65_536
# Without this the broker allows 1,000 consumers a stream.
MOST_FUNCTIONS: Final = 100_000
BODY_RETENTION_SECONDS: Final = 25 * 3600
DEAD_LETTER_RETENTION_SECONDS: Final = 14 * 86_400


@attrs.frozen(kw_only=True, slots=True)
class StreamOptions:
    """The settings of a new stream; later changes by its operator stay."""

    replicas: int
    most_queued: int
    most_queued_per_function: int
    # The broker reserves this disk space when the stream is created.
    most_queued_bytes: int


@attrs.frozen(kw_only=True, slots=True)
class Declaration:
    """The protocol depends on the keys in `required`; the rest of `config` is a default.

    The keys in `updated` are ours alone, so an existing stream gets them.
    """

    config: JsonObject
    required: frozenset[str]
    updated: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return str(self.config["name"])


def declarations(names: Names, options: StreamOptions) -> tuple[Declaration, ...]:
    common: Mapping[str, JsonValue] = {
        "storage": "file",
        "num_replicas": options.replicas,
        "allow_msg_ttl": True,
    }
    ours = frozenset({"subjects", "retention", "discard", "allow_msg_ttl"})
    latest = ours | {"max_msgs_per_subject", "allow_direct"}
    invocations: JsonObject = {
        **common,
        "name": names.invocations,
        "subjects": [f"{names.prefix}.invoke.*"],
        "retention": "workqueue",
        "discard": "new",
        "discard_new_per_subject": True,
        "max_msgs": options.most_queued,
        "max_msgs_per_subject": options.most_queued_per_function,
        "max_bytes": options.most_queued_bytes,
        "max_consumers": MOST_FUNCTIONS,
        "duplicate_window": 120 * _SECOND,
        "allow_direct": True,
    }
    states: JsonObject = {
        **common,
        "name": names.states,
        "subjects": [f"{names.prefix}.state.*.*"],
        "retention": "limits",
        "discard": "new",
        "max_msgs_per_subject": 1,
        "allow_direct": True,
        "republish": {"src": f"{names.prefix}.state.>", "dest": f"{names.prefix}.changed.>"},
    }
    dead_letters: JsonObject = {
        **common,
        "name": names.dead_letters,
        "subjects": [f"{names.prefix}.dlq.*.*"],
        "retention": "limits",
        "discard": "old",
        "max_msgs_per_subject": 1,
        "allow_direct": True,
        "max_age": DEAD_LETTER_RETENTION_SECONDS * _SECOND,
    }
    bodies: JsonObject = {
        **common,
        "name": names.bodies,
        "subjects": [f"{names.prefix}.body.*.*.*.*"],
        "retention": "limits",
        "discard": "old",
        "max_msgs_per_subject": 1,
        "allow_direct": True,
        "max_age": BODY_RETENTION_SECONDS * _SECOND,
    }
    return (
        Declaration(
            config=invocations,
            required=ours | {"discard_new_per_subject"},
            # Positions in the queue are read with it. It costs an operator nothing.
            updated=frozenset({"allow_direct"}),
        ),
        Declaration(config=states, required=latest | {"republish"}),
        Declaration(config=dead_letters, required=latest),
        Declaration(config=bodies, required=latest),
    )


def consumer_declaration(names: Names, function: str, *, ack_wait_seconds: float) -> Declaration:
    """Return the consumer of one function, without a bound on unacknowledged messages.

    Messages that wait for their next attempt are unacknowledged, too, and must not block others.
    Workers request only as many messages as they have free slots.
    """
    return Declaration(
        config={
            "name": function,
            "durable_name": function,
            "filter_subject": names.invoke(function),
            "ack_policy": "explicit",
            "ack_wait": int(ack_wait_seconds * _SECOND),
            "max_deliver": -1,
            "max_ack_pending": -1,
            "max_waiting": MOST_WAITING,
        },
        required=frozenset({"filter_subject", "ack_policy", "max_deliver"}),
    )


def results_declaration(names: Names, *, ack_wait_seconds: float) -> Declaration:
    """Return the consumer of all records, without a bound on unacknowledged messages.

    Records are given back until their deadline, and there may be any number of them.
    """
    return Declaration(
        config={
            "name": RESULTS,
            "durable_name": RESULTS,
            "filter_subject": f"{names.prefix}.state.*.*",
            "ack_policy": "explicit",
            "ack_wait": int(ack_wait_seconds * _SECOND),
            "max_deliver": -1,
            "max_ack_pending": -1,
            "max_waiting": 512,
        },
        required=frozenset({"filter_subject", "ack_policy", "max_deliver", "max_ack_pending"}),
    )


# The broker omits keys with these values from its answers.
_ABSENT: Final[tuple[JsonValue, ...]] = (None, False, 0, "", [], {})


def differences(declaration: Declaration, found: JsonObject) -> tuple[str, ...]:
    """Return the keys whose value differs from the declaration."""
    return tuple(
        key for key, wanted in declaration.config.items() if not _is_as(wanted, found.get(key))
    )


def _is_as(wanted: JsonValue, found: JsonValue) -> bool:
    return found == wanted or (wanted in _ABSENT and found in _ABSENT)
