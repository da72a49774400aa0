from gpuruntime.bus.messages import Heartbeat, WorkerState, encode
from gpuruntime.bus.names import Names
from gpuruntime.bus.session import Message
from gpuruntime.serverless.scaling.heartbeats import Heartbeats, LastHeartbeat

NAMES = Names("runtime")
# By worker, the unit of that name.
UIDS = {"w": "now"}


def beat(
    state: WorkerState = WorkerState.READY,
    *,
    busy: int = 0,
    foreign: int = 0,
    said: str = "echo",
    uid: str = "now",
) -> Message:
    told = Heartbeat(
        workerName="w",
        uid=uid,
        serverlessRequestID=said,
        state=state,
        busy=busy,
        foreign=foreign,
    )
    return Message(NAMES.beat("echo", "w"), encode(told))


def test_what_a_worker_told_last_is_remembered_with_its_moment() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    beats.hear(beat(busy=2), at=5)
    beats.hear(beat(busy=1), at=7)
    assert beats.of("echo", "w") == LastHeartbeat(uid="now", state=WorkerState.READY, busy=1, at=7)


def test_only_another_state_and_more_that_is_foreign_are_news() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    assert beats.hear(beat(), at=1) == ("echo", "w")
    assert beats.hear(beat(busy=1), at=2) is None
    assert beats.hear(beat(WorkerState.DRAINED), at=3) == ("echo", "w")
    assert beats.foreign("echo") == 0
    assert beats.hear(beat(WorkerState.DRAINED, foreign=1), at=4) == ("echo", "w")
    assert beats.foreign("echo") == 1
    assert beats.foreign("other") == 0


def test_whose_a_beat_is_says_the_subject_and_not_the_message() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    assert beats.hear(beat(said="other"), at=1) == ("echo", "w")
    assert beats.of("other", "w") is None


def test_what_is_no_beat_is_dropped() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    assert beats.hear(Message(NAMES.beat("echo", "w"), b"no beat"), at=1) is None
    assert beats.hear(Message("runtime.state.echo.w", beat().data), at=1) is None
    assert beats.of("echo", "w") is None


def test_a_worker_that_is_forgotten_is_news_again() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    beats.hear(beat(), at=1)
    beats.forget("echo", "w")
    beats.forget("echo", "w")
    assert beats.of("echo", "w") is None
    assert beats.hear(beat(), at=2) == ("echo", "w")


def test_what_a_functions_workers_have_in_hand_is_counted_as_far_as_they_are_heard() -> None:
    beats = Heartbeats(NAMES, dict.fromkeys(("w1", "w2", "w3"), "now").get)
    for at, worker in enumerate(("w1", "w2", "w3")):
        told = beat(busy=2)
        beats.hear(Message(NAMES.beat("echo", worker), told.data), at=at)
    assert beats.busy("echo", since=1) == 4
    assert beats.busy("other", since=0) == 0


def test_workers_that_fell_silent_are_forgotten() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    beats.hear(beat(busy=1), at=1)
    beats.forget_silent(since=1)
    assert beats.busy("echo", since=0) == 1
    beats.forget_silent(since=2)
    assert beats.of("echo", "w") is None
    assert beats.busy("echo", since=0) == 0


def test_of_a_worker_that_nobody_knows_nothing_is_kept() -> None:
    beats = Heartbeats(NAMES, dict[str, str]().get)
    assert beats.hear(beat(), at=1) is None
    assert beats.of("echo", "w") is None


def test_what_an_earlier_worker_of_the_name_still_tells_is_dropped() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    beats.hear(beat(), at=1)
    assert beats.hear(beat(WorkerState.DRAINED, uid="before"), at=2) is None
    assert beats.of("echo", "w") == LastHeartbeat(uid="now", state=WorkerState.READY, busy=0, at=1)


def test_a_worker_that_does_not_know_its_uid_is_heard_by_its_name() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    assert beats.hear(beat(uid=""), at=1) == ("echo", "w")
    assert beats.of("echo", "w") == LastHeartbeat(uid="", state=WorkerState.READY, busy=0, at=1)
