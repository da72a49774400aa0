from gpuruntime.concurrency.latest import Latest


def test_the_oldest_entry_is_dropped_when_there_are_too_many() -> None:
    latest = Latest[str, int](2)
    assert latest.put("a", 1) == []
    assert latest.put("b", 2) == []
    assert latest.put("c", 3) == [1]
    assert len(latest) == 2
    assert "a" not in latest
    assert (latest.get("b", None), latest.get("c", None)) == (2, 3)


def test_a_key_that_is_put_again_becomes_the_latest() -> None:
    latest = Latest[str, int](2)
    latest.put("a", 1)
    latest.put("b", 2)
    assert latest.put("a", 3) == [1]
    assert latest.put("c", 4) == [2]
    assert latest.get("a", None) == 3


def test_the_oldest_entry_is_popped_first() -> None:
    latest = Latest[str, int](3)
    for number, key in enumerate("abc"):
        latest.put(key, number)
    assert [latest.pop_oldest() for _ in range(3)] == [0, 1, 2]


def test_no_entry_is_kept_if_most_is_zero() -> None:
    latest = Latest[str, int](0)
    assert latest.put("a", 1) == [1]
    assert len(latest) == 0


def test_a_missing_key_has_the_default() -> None:
    latest = Latest[str, int](2)
    latest.put("a", 1)
    latest.discard("a")
    latest.discard("a")
    assert latest.get("a", 7) == 7
    latest.put("b", 1)
    latest.clear()
    assert len(latest) == 0
