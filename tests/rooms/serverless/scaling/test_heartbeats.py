from gpuruntime.bus.messages import Heartbeat, WorkerState, encode
from gpuruntime.bus.names import Names
from gpuruntime.bus.session import Message
from gpuruntime.serverless.scaling.heartbeats import Heartbeats, LastHeartbeat

NAMES = Names("runtime")
# Uids of units by their names.
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


def test_a_workers_last_heartbeat_is_kept_with_its_moment() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    beats.receive(beat(busy=2), at=5)
    beats.receive(beat(busy=1), at=7)
    assert beats.of("echo", "w") == LastHeartbeat(uid="now", state=WorkerState.READY, busy=1, at=7)


def test_only_a_new_state_or_more_foreign_invocations_need_a_reconcile() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    assert beats.receive(beat(), at=1) == ("echo", "w")
    assert beats.receive(beat(busy=1), at=2) is None
    assert beats.receive(beat(WorkerState.DRAINED), at=3) == ("echo", "w")
    assert beats.foreign("echo") == 0
    assert beats.receive(beat(WorkerState.DRAINED, foreign=1), at=4) == ("echo", "w")
    assert beats.foreign("echo") == 1
    assert beats.foreign("other") == 0


def test_the_subject_identifies_the_worker_and_the_message_does_not() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    assert beats.receive(beat(said="other"), at=1) == ("echo", "w")
    assert beats.of("other", "w") is None


def test_a_malformed_heartbeat_is_dropped() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    assert beats.receive(Message(NAMES.beat("echo", "w"), b"no beat"), at=1) is None
    assert beats.receive(Message("runtime.state.echo.w", beat().data), at=1) is None
    assert beats.of("echo", "w") is None


def test_a_forgotten_worker_needs_a_reconcile_again() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    beats.receive(beat(), at=1)
    beats.forget("echo", "w")
    beats.forget("echo", "w")
    assert beats.of("echo", "w") is None
    assert beats.receive(beat(), at=2) == ("echo", "w")


def test_running_invocations_are_summed_over_the_workers_heard_lately() -> None:
    beats = Heartbeats(NAMES, dict.fromkeys(("w1", "w2", "w3"), "now").get)
    for at, worker in enumerate(("w1", "w2", "w3")):
        told = beat(busy=2)
        beats.receive(Message(NAMES.beat("echo", worker), told.data), at=at)
    assert beats.busy("echo", since=1) == 4
    assert beats.busy("other", since=0) == 0


def test_silent_workers_are_forgotten() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    beats.receive(beat(busy=1), at=1)
    beats.forget_silent(since=1)
    assert beats.busy("echo", since=0) == 1
    beats.forget_silent(since=2)
    assert beats.of("echo", "w") is None
    assert beats.busy("echo", since=0) == 0


def test_heartbeats_of_an_unknown_worker_are_dropped() -> None:
    beats = Heartbeats(NAMES, dict[str, str]().get)
    assert beats.receive(beat(), at=1) is None
    assert beats.of("echo", "w") is None


def test_heartbeats_of_an_earlier_worker_of_the_name_are_dropped() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    beats.receive(beat(), at=1)
    assert beats.receive(beat(WorkerState.DRAINED, uid="before"), at=2) is None
    assert beats.of("echo", "w") == LastHeartbeat(uid="now", state=WorkerState.READY, busy=0, at=1)


def test_a_worker_that_does_not_know_its_uid_is_identified_by_name() -> None:
    beats = Heartbeats(NAMES, UIDS.get)
    assert beats.receive(beat(uid=""), at=1) == ("echo", "w")
    assert beats.of("echo", "w") == LastHeartbeat(uid="", state=WorkerState.READY, busy=0, at=1)
