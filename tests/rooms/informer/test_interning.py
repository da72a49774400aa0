import sys

import attrs
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.informer.interning import LONGEST_SHARED, MOST_SHARED, Interner
from gpuruntime.models.encoding import codec
from gpuruntime.models.kubernetes.metadata import ObjectMeta, OwnerReference


@attrs.frozen(kw_only=True, slots=True)
class Part:
    word: str = ""
    raw: msgspec.Raw = msgspec.Raw()


@attrs.frozen(kw_only=True, slots=True)
class Whole:
    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    words: tuple[str, ...] = ()
    number: int = 0


def decode(value: Whole) -> Whole:
    return codec.decode(codec.encode(codec.to_json(value)), Whole)


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(codec.encode(text))


texts = st.text(max_size=2 * LONGEST_SHARED)
parts = st.builds(Part, word=texts, raw=st.builds(raw, texts))
wholes = st.builds(
    Whole,
    metadata=st.builds(
        ObjectMeta,
        name=texts,
        namespace=texts,
        labels=st.dictionaries(texts, texts),
        ownerReferences=st.builds(OwnerReference, name=texts, uid=texts).map(lambda one: (one,)),
    ),
    part=st.none() | parts,
    parts=st.lists(parts, max_size=3).map(tuple),
    words=st.lists(texts, max_size=3).map(tuple),
)


@given(wholes)
def test_a_compacted_value_equals_the_original(value: Whole) -> None:
    compacted = Interner(Whole)(decode(value))
    assert codec.to_json(compacted) == codec.to_json(value)


def test_equal_strings_of_two_objects_are_one_string() -> None:
    value = Whole(
        metadata=ObjectMeta(namespace="lab", labels={"colour": "red-ish"}),
        part=Part(word="a word"),
        parts=(Part(word="another word"),),
        words=("a third word",),
    )
    compaction = Interner(Whole)
    one, two = compaction(decode(value)), compaction(decode(value))
    assert one.metadata.namespace is two.metadata.namespace
    assert one.metadata.labels["colour"] is two.metadata.labels["colour"]
    assert one.part is not None
    assert two.part is not None
    assert one.part.word is two.part.word
    assert one.parts[0].word is two.parts[0].word
    assert one.words[0] is two.words[0]


def test_raw_members_do_not_keep_their_page_in_memory() -> None:
    page = codec.encode({"part": {"raw": "a"}, "parts": [{"raw": "b"}]})
    references = sys.getrefcount(page)
    compacted = Interner(Whole)(codec.decode(page, Whole))
    assert compacted.part is not None
    assert bytes(compacted.part.raw) == b'"a"'
    assert bytes(compacted.parts[0].raw) == b'"b"'
    assert sys.getrefcount(page) == references


def test_strings_that_never_repeat_are_forgotten() -> None:
    compaction = Interner(Whole)
    for number in range(MOST_SHARED + 100):
        compaction(Whole(part=Part(word=f"word {number}")))
    assert len(compaction._strings) <= MOST_SHARED + 1


def test_a_type_without_shared_strings_is_left_alone() -> None:
    @attrs.frozen(kw_only=True, slots=True)
    class Plain:
        number: int = 0

    value = Plain(number=7)
    assert Interner(Plain)(value) is value
