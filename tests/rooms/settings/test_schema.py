from gpuruntime.settings.values import Address


def test_a_loopback_address_is_recognised() -> None:
    assert Address("127.0.0.1", 1).is_loopback
    assert Address("::1", 1).is_loopback
    assert Address("localhost", 1).is_loopback
    assert not Address("", 1).is_loopback
    assert not Address("0.0.0.0", 1).is_loopback
