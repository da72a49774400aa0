"""The envelope is what a unit holds of a node; envelopes are compared by value."""

from typing import Protocol

import attrs

from gpuruntime.models.kubernetes.quantities import InvalidQuantityError, Quantity, parse_quantity


class HasEnvelope(Protocol):
    """The specs of units and pools, and the requests that create them."""

    @property
    def cpu(self) -> str: ...
    @property
    def memory(self) -> str: ...
    @property
    def gpu(self) -> int: ...
    @property
    def gpuProduct(self) -> str: ...  # noqa: N802  # Kubernetes' own field name


@attrs.frozen(kw_only=True, slots=True)
class Envelope:
    """An envelope in which `1Gi` equals `1024Mi`; other texts equal only themselves."""

    cpu: Quantity | str
    memory: Quantity | str
    gpu: int
    gpuProduct: str

    def may_equal(self, other: "Envelope") -> bool:
        """Return whether the envelopes may be equal; only the manager knows its defaults.

        There is no default product. An envelope that names none takes any, so it is another one.
        """
        return (
            (self.gpu, self.gpuProduct) == (other.gpu, other.gpuProduct)
            and (self.cpu == other.cpu or "" in (self.cpu, other.cpu))
            and (self.memory == other.memory or "" in (self.memory, other.memory))
        )


def envelope_of(spec: HasEnvelope) -> Envelope:
    return Envelope(
        cpu=_comparable(spec.cpu),
        memory=_comparable(spec.memory),
        gpu=spec.gpu,
        gpuProduct=spec.gpuProduct,
    )


def _comparable(text: str) -> Quantity | str:
    try:
        return parse_quantity(text)
    except InvalidQuantityError:
        return text
