"""Flavours: the units that every caller may ask for."""

import attrs


@attrs.frozen(kw_only=True, slots=False)
class FlavourView:
    """A flavour. `available` units can be claimed now, and `units` have been claimed and exist.

    A flavour is `full` while none is available. An empty cpu or memory is the manager's default,
    and an empty gpuProduct any.
    """

    specName: str
    cpu: str
    memory: str
    gpu: int
    gpuProduct: str
    available: int
    units: int
    full: bool
