"""The template is the part of a spec that units and pools share: what the container runs."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

import attrs

from gpuruntime.models.definitions.rules import (
    APART_FILES,
    FREE_ENV_NAME,
    FREE_FILE_PATH,
    ONE_ENV_VALUE,
    PLAIN_FILE_PATH,
    UNIQUE_ENV_NAMES,
    UNIQUE_FILES,
    UNIQUE_PORT_NAMES,
    UNIQUE_PORT_NUMBERS,
)
from gpuruntime.models.definitions.schemas import Nullable, Rule, Schema
from gpuruntime.models.definitions.texts import Argument, EnvName, MountPath, PortName
from gpuruntime.models.kinds.secrets import SecretKey

# The name of the container that a template describes; the other one of a Pod is the worker.
RUNTIME_CONTAINER: Final = "runtime"


class PortProtocol(StrEnum):
    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


@attrs.frozen(kw_only=True, slots=True)
class EnvVar:
    """A variable of the environment: a value, or one of a secret."""

    RULES: ClassVar[tuple[Rule, ...]] = (FREE_ENV_NAME, ONE_ENV_VALUE)

    name: EnvName
    value: Argument = ""
    secret: Annotated[SecretKey | None, Nullable()] = None


@attrs.frozen(kw_only=True, slots=True)
class SecretFile:
    """A value of a secret as a file that can only be read."""

    RULES: ClassVar[tuple[Rule, ...]] = (PLAIN_FILE_PATH, FREE_FILE_PATH)

    path: MountPath
    secret: SecretKey


@attrs.frozen(kw_only=True, slots=True)
class Port:
    name: PortName
    port: Annotated[int, Schema(minimum=1, maximum=65535)]
    protocol: Annotated[str, Schema(enum=tuple(PortProtocol))] = PortProtocol.TCP


@attrs.frozen(kw_only=True, slots=True)
class Template:
    """The process of the container. Absent members are as the image defines them."""

    command: Annotated[tuple[Argument, ...], Schema(maxItems=128)] = ()
    args: Annotated[tuple[Argument, ...], Schema(maxItems=256)] = ()
    # With 256 items, comparing the longest names exceeds the API server's budget for one rule.
    envs: Annotated[tuple[EnvVar, ...], Schema(maxItems=128), UNIQUE_ENV_NAMES] = ()
    ports: Annotated[
        tuple[Port, ...], Schema(maxItems=32), UNIQUE_PORT_NAMES, UNIQUE_PORT_NUMBERS
    ] = ()
    files: Annotated[tuple[SecretFile, ...], Schema(maxItems=32), UNIQUE_FILES, APART_FILES] = ()
