"""Whatever somebody writes into labels and annotations is judged, and never raises."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.audit.audit import suspicions
from gpuruntime.models import labels
from tests.audit.values import change, sound, with_metadata, with_spec

KEYS = (
    labels.CLAIMED_BY,
    labels.CLAIM_ATTEMPT,
    labels.OPERATION_ID,
    labels.REQUEST_HASH,
    labels.CLAIMED_AT,
    labels.SOURCE_STOCK,
    labels.SOURCE_STOCK_UID,
    labels.POOL_UID,
    labels.POOL,
    labels.UNIT,
    labels.SPEC,
)
WORDS = st.sampled_from(
    ("", "/", "a/b/c", "p-", "p-0", "-", "runtime-stock/p-1", "uid-p", "uid-p-1", "٣", "p-٣")
) | st.text(max_size=8)
NOTES = st.dictionaries(st.sampled_from(KEYS), WORDS)
PLACES = st.sampled_from((("stock", "p-2"), ("stock", "p-4"), ("units", "demo"), ("pools", "p")))


@given(place=PLACES, annotations=NOTES, given_labels=NOTES, cpu=WORDS)
def test_any_words_are_judged(
    place: tuple[str, str], annotations: Any, given_labels: Any, cpu: str
) -> None:
    def scribble(held: Any) -> Any:
        noted = with_metadata(held, annotations=annotations, labels=given_labels)
        return with_spec(noted, cpu=cpu)

    for each in suspicions(change(sound(), *place, scribble)):
        assert each.breach.message
        assert each.breach.remedy
        assert each.breach.objects
