import attrs

from gpuruntime.models.encoding.members import compact, default_of, shared, shared_names
from gpuruntime.models.kinds.functions import Serverless
from gpuruntime.models.kinds.templates import Port, Template


@attrs.frozen(kw_only=True, slots=True)
class Source:
    first: int
    second: str = "b"
    third: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class Target:
    third: object
    first: int
    fourth: int = 4


def test_compact_json_leaves_out_members_that_equal_their_defaults() -> None:
    template = Template(ports=(Port(name="http", port=80),))
    assert compact(template) == {"ports": [{"name": "http", "port": 80}]}
    assert compact(Serverless(requestID="f")) == {"requestID": "f"}


def test_shared_members_are_those_of_both_classes_in_the_order_of_the_value() -> None:
    assert shared_names(Source, Target) == ("first", "third")
    assert shared(Source(first=1, third={"a": "b"}), Target) == {"first": 1, "third": {"a": "b"}}


def test_the_default_of_a_factory_is_a_value_of_it() -> None:
    assert [default_of(field) for field in attrs.fields(Source)] == [attrs.NOTHING, "b", {}]
