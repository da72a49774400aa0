"""Addresses are assigned in order, kept, and reused as late as possible."""

from gpuruntime.embedded.nodes.addresses import Addresses


def test_addresses_are_assigned_in_order_and_kept() -> None:
    addresses = Addresses()
    assert (addresses.of_node("a"), addresses.of_node("b")) == ("172.18.0.1", "172.18.0.2")
    assert addresses.of_node("a") == "172.18.0.1"
    assert [addresses.take(uid) for uid in ("x", "y", "x")] == [
        "10.244.0.1",
        "10.244.0.2",
        "10.244.0.1",
    ]


def test_an_address_is_reused_only_after_all_others_were_assigned() -> None:
    addresses = Addresses()
    first = addresses.take("first")
    addresses.give_back("first")
    addresses.give_back("first")
    others = [addresses.take(str(number)) for number in range(256 * 254 - 1)]
    assert first not in others
    assert len(set(others)) == len(others)
    assert addresses.take("last") == first
