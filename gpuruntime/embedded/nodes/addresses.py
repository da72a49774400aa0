"""Addresses of nodes and Pods, assigned in order; a returned one is reused as late as possible."""

from collections import deque
from typing import Final

_NODES: Final = "172.18"
_PODS: Final = "10.244"
_MOST: Final = 256 * 254


class Addresses:
    """Addresses of nodes and Pods; the same calls return the same addresses."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
        self._taken: dict[str, str] = {}
        self._returned: deque[str] = deque()
        self._given = 0

    def of_node(self, name: str) -> str:
        if name not in self._nodes:
            self._nodes[name] = _address(_NODES, len(self._nodes))
        return self._nodes[name]

    def take(self, uid: str) -> str:
        """Return the Pod's address; it keeps the first one that it got."""
        if uid not in self._taken:
            self._taken[uid] = self._next()
        return self._taken[uid]

    def keep(self, uid: str, address: str) -> None:
        """Count the address as taken by the Pod, which has it from an earlier kubelet.

        Addresses that were passed over become the first to be reused. Others are ignored.
        """
        number = _number_of(address)
        if number is None or uid in self._taken:
            return
        self._taken[uid] = address
        if address in self._returned:
            self._returned.remove(address)
        while self._given < number:
            self._returned.append(_address(_PODS, self._given))
            self._given += 1
        self._given = max(self._given, number + 1)

    def give_back(self, uid: str) -> None:
        """Release the Pod's address; do nothing if it has none."""
        address = self._taken.pop(uid, None)
        if address is not None:
            self._returned.append(address)

    def _next(self) -> str:
        if self._given == _MOST:
            return self._returned.popleft()
        self._given += 1
        return _address(_PODS, self._given - 1)


def _number_of(address: str) -> int | None:
    """Return the number of a Pod's address, or None if it is none of ours."""
    network, _, rest = address.rpartition(".")[0].rpartition(".")
    last = address.rpartition(".")[2]
    if network != _PODS:
        return None
    return int(rest) * 254 + int(last) - 1


def _address(network: str, number: int) -> str:
    """Return an address of the network, skipping its own and its broadcast address."""
    third, last = divmod(number, 254)
    return f"{network}.{third}.{last + 1}"
