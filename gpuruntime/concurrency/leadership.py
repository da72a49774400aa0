"""The answer to whether this process leads, one for all parts of a role."""

from collections.abc import Callable


class Leadership:
    """Leadership begins at most once, when the caches are complete, and ends with the process."""

    def __init__(self) -> None:
        self.is_leading = False
        self._listeners: list[Callable[[], None]] = []

    def on_begin(self, listener: Callable[[], None]) -> None:
        """Call the listener when leadership begins; listeners are called in order."""
        self._listeners.append(listener)

    def begin(self) -> None:
        """Lead from now on. Nothing else runs until all listeners have returned."""
        self.is_leading = True
        for listener in self._listeners:
            listener()
