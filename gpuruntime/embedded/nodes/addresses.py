"""Addresses for nodes and Pods: given in order, and given again only when all others were."""

from collections import deque
from typing import Final

_NODES: Final = "172.18"
_PODS: Final = "10.244"
_MOST: Final = 256 * 254


class Addresses:
    """The same calls give the same addresses."""

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
        """A Pod keeps the address that it was given first."""
        if uid not in self._taken:
            self._taken[uid] = self._next()
        return self._taken[uid]

    def give_back(self, uid: str) -> None:
        """Does nothing for whoever has none."""
        address = self._taken.pop(uid, None)
        if address is not None:
            self._returned.append(address)

    def _next(self) -> str:
        if self._given == _MOST:
            return self._returned.popleft()
        self._given += 1
        return _address(_PODS, self._given - 1)


def _address(network: str, number: int) -> str:
    """Neither the network's own address nor that of its broadcasts."""
    third, last = divmod(number, 254)
    return f"{network}.{third}.{last + 1}"
