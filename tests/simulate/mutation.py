"""A small defect, and where it is planted."""

import attrs


@attrs.frozen(slots=True)
class Mutation:
    """In the module's source `old`, which stands there once, is replaced.

    No story of the simulation leads where `test` is given: it has to fail instead.
    """

    name: str
    module: str
    old: str
    new: str
    test: str = ""
