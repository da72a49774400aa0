import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.bus.errors import BadNameError
from gpuruntime.bus.names import Names, dead_letter_id, unreadable_letter_id, worker_rights

HOSTILE = (
    "",
    ".",
    "a.b",
    "*",
    ">",
    "a b",
    "a\n",
    "a\r\nPUB x",
    "\x00",
    "é",
    "a" * 256,
    "$JS",
    "٣",
)
names = Names("runtime")


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_hostile_name_never_becomes_part_of_a_subject(text: str) -> None:
    for make in (
        lambda: names.invoke(text),
        lambda: names.state("echo", text),
        lambda: names.state(text, "id"),
        lambda: names.beat("echo", text),
        lambda: names.control("echo", text),
        lambda: names.wake(text),
        lambda: names.dead_letter("echo", text),
        lambda: names.body("echo", text, series=1, attempt=1, part=0),
        lambda: names.next_invocation(text),
        lambda: names.inbox(text),
        lambda: worker_rights(names, text),
    ):
        with pytest.raises(BadNameError):
            make()


@pytest.mark.parametrize("prefix", ["", "A", "a.b", "a-b", "1a", "a" * 33, "a*"])
def test_a_prefix_that_is_not_one_token_is_rejected(prefix: str) -> None:
    with pytest.raises(BadNameError):
        Names(prefix)


@given(
    st.from_regex(r"[a-z0-9_-]{1,63}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9_-]{1,128}", fullmatch=True),
)
def test_function_and_invocation_are_read_back_from_a_records_subject(
    function: str, invocation: str
) -> None:
    for subject in (names.state(function, invocation), names.changed(function, invocation)):
        assert names.record_of(subject) == (function, invocation)


@pytest.mark.parametrize(
    "subject",
    ["", "runtime.state.echo", "other.state.echo.1", "runtime.beat.echo.1", "runtime.state.e.1.2"],
)
def test_another_subject_than_a_records_is_rejected(subject: str) -> None:
    with pytest.raises(BadNameError):
        names.record_of(subject)


def test_function_and_worker_are_read_back_from_a_heartbeats_subject() -> None:
    assert names.beat_of(names.beat("echo_1", "echo-w-1")) == ("echo_1", "echo-w-1")


@pytest.mark.parametrize(
    "subject",
    ["", "runtime.beat.echo", "other.beat.echo.w", "runtime.state.echo.w", "runtime.beat.echo.W"],
)
def test_another_subject_than_a_heartbeats_is_rejected(subject: str) -> None:
    with pytest.raises(BadNameError):
        names.beat_of(subject)


def test_an_error_shows_part_of_the_name_and_what_is_allowed() -> None:
    with pytest.raises(BadNameError, match=r"'x{80}' must be 1 to 128 of letters") as caught:
        names.state("echo", "x" * 5000)
    assert len(str(caught.value)) < 200


def test_a_dead_letter_has_one_id_in_each_series() -> None:
    ids = {dead_letter_id("echo", "1", 1) for _ in range(3)}
    others = {
        dead_letter_id("echo", "1", 2),
        dead_letter_id("echo", "11", 1),
        unreadable_letter_id("echo", 1),
    }
    assert len(ids) == 1
    assert len(ids | others) == 4


def test_two_prefixes_share_no_stream() -> None:
    other = Names("other")
    ours = {names.invocations, names.states, names.dead_letters, names.bodies}
    theirs = {other.invocations, other.states, other.dead_letters, other.bodies}
    assert len(ours | theirs) == 8
