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


def test_the_addresses_of_an_earlier_kubelet_are_given_to_no_other_pod() -> None:
    addresses = Addresses()
    for uid, address in (("x", "10.244.0.3"), ("y", "10.244.0.1"), ("process", "127.0.0.1")):
        addresses.keep(uid, address)
    assert addresses.take("x") == "10.244.0.3"
    assert addresses.take("new") == "10.244.0.4"
    others = [addresses.take(str(number)) for number in range(256 * 254 - 4)]
    assert addresses.take("last") == "10.244.0.2"
    addresses.give_back("y")
    assert addresses.take("more") == "10.244.0.1"
    assert len(set(others)) == len(others)


def test_a_kept_address_is_not_kept_twice() -> None:
    addresses = Addresses()
    first = addresses.take("x")
    addresses.keep("x", first)
    assert addresses.take("y") == "10.244.0.2"
