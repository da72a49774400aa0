"""Bytes become values, nulls are absent, and every fault is reported with its place."""

import contextlib
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.encoding.codec import (
    MalformedObjectError,
    decode,
    decode_object,
    encode,
    encode_canonical,
    to_json,
)
from gpuruntime.models.kubernetes.metadata import Key, ObjectMeta, PartialObject
from gpuruntime.models.kubernetes.timestamps import MicroTime, rfc3339, rfc3339_micro

NOON = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)


class Phase(StrEnum):
    READY = "Ready"


@attrs.frozen(kw_only=True, slots=True)
class Step:
    name: str = ""
    at: datetime | None = None


@attrs.frozen(kw_only=True, slots=True)
class Gadget:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    phase: Phase | None = None
    size: int = 0
    steps: tuple[Step, ...] = ()
    renewedAt: MicroTime | None = None
    kept: msgspec.Raw = msgspec.Raw()


def test_unknown_members_are_skipped() -> None:
    assert decode(b'{"size": 3, "colour": {"deep": [1]}}', Gadget) == Gadget(size=3)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_kind_of_buffer_decodes(kind: type[bytes]) -> None:
    assert decode(kind(b'{"size": null}'), Gadget) == Gadget()


def test_null_reads_as_absent_at_any_depth() -> None:
    data = b"""{"size": null, "metadata": {"name": "a", "labels": {"x": null, "y": "1"}},
        "steps": [{"name": null}, {"name": "b"}]}"""

    gadget = decode(data, Gadget)

    assert gadget.size == 0
    assert gadget.metadata.labels == {"y": "1"}
    assert gadget.steps == (Step(), Step(name="b"))


def test_the_word_null_in_a_text_is_not_a_null() -> None:
    assert decode(b'{"size": null, "phase": "Ready", "metadata": {"name": "null"}}', Gadget) == (
        Gadget(phase=Phase.READY, metadata=ObjectMeta(name="null"))
    )


def test_a_fault_beside_a_null_is_still_a_fault() -> None:
    with pytest.raises(MalformedObjectError) as raised:
        decode(b'{"metadata": {"name": null}, "size": "big"}', Gadget)

    assert raised.value.path == "$.size"


def test_a_null_item_of_a_list_has_no_absent_form() -> None:
    with pytest.raises(MalformedObjectError, match="null"):
        decode(b'{"steps": [null]}', Gadget)


def test_a_malformed_object_is_named_with_type_path_and_key() -> None:
    with pytest.raises(MalformedObjectError) as raised:
        decode(b'{"metadata": {"namespace": "n", "name": "a"}, "size": "big"}', Gadget)

    assert (raised.value.type_name, raised.value.path) == ("Gadget", "$.size")
    assert raised.value.key == Key("n", "a")
    assert str(raised.value) == ("cannot read Gadget n/a at $.size: Expected `int`, got `str`")


@pytest.mark.parametrize(
    "data",
    [b"", b"<html>", b'{"size": 1', b"{} {}", b'{"metadata": {"name": "\xff"}}', b"null", b"[]"],
)
def test_a_document_that_is_not_an_object_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedObjectError):
        decode(data, Gadget)
    with pytest.raises(MalformedObjectError):
        decode_object(data)


@pytest.mark.parametrize("prefix", [b'{"x":', b'{"size":null,"x":'])
def test_a_deeply_nested_document_is_malformed_and_causes_no_crash(prefix: bytes) -> None:
    with pytest.raises(MalformedObjectError):
        decode(prefix + b"[" * 50_000, Gadget)


@given(st.binary(max_size=40) | st.text('{}[]":,nul0 a', max_size=40).map(str.encode))
def test_any_bytes_raise_at_most_a_malformed_error(data: bytes) -> None:
    with contextlib.suppress(MalformedObjectError):
        decode(data, PartialObject)


def test_a_body_has_no_nones_and_keeps_empty_values() -> None:
    body = to_json(Gadget(phase=Phase.READY, steps=(Step(name="a"),)))

    assert body["phase"] == "Ready"
    assert body["steps"] == [{"name": "a"}]
    assert body["size"] == 0
    assert "renewedAt" not in body
    assert "kept" not in body


def test_raw_parts_become_plain_members_of_a_body() -> None:
    assert to_json(decode(b'{"kept": {"a": [1, 2]}}', Gadget))["kept"] == {"a": [1, 2]}


def test_timestamps_are_written_as_their_fields_ask() -> None:
    body = to_json(Gadget(steps=(Step(at=NOON),), renewedAt=NOON.replace(microsecond=0)))

    assert body["steps"] == [{"name": "", "at": "2026-03-01T12:00:00Z"}]
    assert body["renewedAt"] == "2026-03-01T12:00:00.000000Z"


def test_a_value_that_is_not_a_model_has_no_body() -> None:
    with pytest.raises(TypeError, match="timedelta has no form in JSON"):
        to_json(Step(name=timedelta()))  # type: ignore[arg-type]  # the fault under test


def test_a_body_reads_back_as_the_value_it_came_from() -> None:
    gadget = Gadget(
        metadata=ObjectMeta(
            name="a", labels={"x": "1"}, creationTimestamp=NOON.replace(microsecond=0)
        ),
        steps=(Step(name="b"),),
        renewedAt=NOON,
    )

    assert decode(encode(to_json(gadget)), Gadget) == gadget


def test_canonical_bytes_do_not_depend_on_the_order_of_members() -> None:
    assert encode_canonical({"b": {"d": 1, "c": 2}, "a": 0}) == b'{"a":0,"b":{"c":2,"d":1}}'


def test_timestamps_are_written_in_utc() -> None:
    eastern = NOON.astimezone(timezone(timedelta(hours=9)))

    assert rfc3339(eastern) == "2026-03-01T12:00:00Z"
    assert rfc3339_micro(eastern) == "2026-03-01T12:00:00.500000Z"


def test_a_timestamp_without_a_zone_is_rejected() -> None:
    with pytest.raises(ValueError, match="time zone"):
        rfc3339(NOON.replace(tzinfo=None))
