"""Configuration of `gpuruntime dev`: which commands run, and the devices of its nodes."""

import re
from enum import StrEnum
from typing import Final

import attrs

from gpuruntime.models.kubernetes.names import is_dns_subdomain
from gpuruntime.strict.structure import FieldError, raise_all

# The bounds of Kubernetes for a slice, a driver's name and the value of an attribute.
MOST_DEVICES: Final = 128
LONGEST_DRIVER: Final = 63
LONGEST_PRODUCT: Final = 64

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


class DevRun(StrEnum):
    """`auto` runs the commands of units that begin with a program; `simulated` runs none."""

    AUTO = "auto"
    SIMULATED = "simulated"


@attrs.frozen(kw_only=True, slots=True)
class DeviceSettings:
    """The devices of `resource.k8s.io` that each node of dev has, beside its GPUs."""

    count: int = 0
    className: str = "gpu.example.com"
    driver: str = "gpu.example.com"
    product: str = "NVIDIA-TEST"

    def __attrs_post_init__(self) -> None:
        faults = []
        if not 0 <= self.count <= MOST_DEVICES:
            faults.append(FieldError("count", f"must be between 0 and {MOST_DEVICES}"))
        if not is_dns_subdomain(self.className):
            faults.append(FieldError("className", "is no DNS name, such as gpu.example.com"))
        if not is_dns_subdomain(self.driver) or len(self.driver) > LONGEST_DRIVER:
            why = f"is no DNS name of at most {LONGEST_DRIVER} characters"
            faults.append(FieldError("driver", why))
        if len(self.product) > LONGEST_PRODUCT:
            why = f"must have at most {LONGEST_PRODUCT} characters"
            faults.append(FieldError("product", why))
        raise_all(faults)


@attrs.frozen(kw_only=True, slots=True)
class DevSettings:
    run: DevRun = DevRun.AUTO
    programs: tuple[str, ...] = ("python", "python3", "node", "bash", "sh")
    devices: DeviceSettings = DeviceSettings()

    def __attrs_post_init__(self) -> None:
        raise_all(
            [
                FieldError(f"programs[{index}]", f"{name!r} is no name of a program, such as node")
                for index, name in enumerate(self.programs)
                if not _NAME.fullmatch(name)
            ]
        )
