from tests.rooms.bus.fixtures import declared, own, shared

__all__ = ["declared", "own", "shared"]
