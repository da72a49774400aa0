from gpuruntime.concurrency.leadership import Leadership


def test_every_listener_is_called_in_order_once_this_process_leads() -> None:
    leadership = Leadership()
    seen: list[tuple[str, bool]] = []
    leadership.on_begin(lambda: seen.append(("first", leadership.is_leading)))
    leadership.on_begin(lambda: seen.append(("second", leadership.is_leading)))
    assert not leadership.is_leading
    leadership.begin()
    assert seen == [("first", True), ("second", True)]
