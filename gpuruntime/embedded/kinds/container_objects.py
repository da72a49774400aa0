"""What a kubelet reads of containers and volumes beyond that they are there."""

from typing import Protocol

import attrs


@attrs.frozen(kw_only=True, slots=True)
class HttpGet:
    """The port is a number, or the name of one of the container's."""

    path: str = "/"
    port: int | str = 0


@attrs.frozen(kw_only=True, slots=True)
class TcpSocket:
    port: int | str = 0


class Handler(Protocol):
    """What a probe asks, and what a hook calls."""

    @property
    def httpGet(self) -> HttpGet | None: ...  # noqa: N802 - Kubernetes' own name

    @property
    def tcpSocket(self) -> TcpSocket | None: ...  # noqa: N802 - here too


@attrs.frozen(kw_only=True, slots=True)
class Probe:
    initialDelaySeconds: int = 0
    timeoutSeconds: int = 1
    periodSeconds: int = 10
    failureThreshold: int = 3
    httpGet: HttpGet | None = None
    tcpSocket: TcpSocket | None = None


@attrs.frozen(kw_only=True, slots=True)
class Hook:
    httpGet: HttpGet | None = None
    tcpSocket: TcpSocket | None = None


@attrs.frozen(kw_only=True, slots=True)
class Lifecycle:
    preStop: Hook | None = None


@attrs.frozen(kw_only=True, slots=True)
class FieldSelector:
    fieldPath: str = ""


@attrs.frozen(kw_only=True, slots=True)
class ValueSource:
    fieldRef: FieldSelector | None = None


@attrs.frozen(kw_only=True, slots=True)
class Variable:
    name: str = ""
    value: str = ""
    valueFrom: ValueSource | None = None


@attrs.frozen(kw_only=True, slots=True)
class ContainerPort:
    name: str = ""
    containerPort: int = 0


@attrs.frozen(kw_only=True, slots=True)
class VolumeMount:
    name: str = ""
    mountPath: str = ""
    subPath: str = ""


@attrs.frozen(kw_only=True, slots=True)
class ClaimSource:
    claimName: str = ""


@attrs.frozen(kw_only=True, slots=True)
class KeyToPath:
    """Without a mode it is that of the volume."""

    key: str = ""
    path: str = ""
    mode: int | None = None


@attrs.frozen(kw_only=True, slots=True)
class SecretSource:
    """Without items all keys are files."""

    secretName: str = ""
    items: tuple[KeyToPath, ...] = ()
    defaultMode: int = 0o644
    optional: bool = False


@attrs.frozen(kw_only=True, slots=True)
class EmptyDir:
    medium: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Volume:
    """Of the sources at most one; others than these are not there for a process."""

    name: str = ""
    persistentVolumeClaim: ClaimSource | None = None
    secret: SecretSource | None = None
    emptyDir: EmptyDir | None = None
