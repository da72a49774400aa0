"""Probes, hooks, variables and mounts of containers, and volumes, as the kubelet reads them."""

from typing import Protocol

import attrs

from gpuruntime.models.kubernetes.pods import ClaimSource


@attrs.frozen(kw_only=True, slots=True)
class HttpGet:
    """An HTTP request; the port is a number or the name of a container's port."""

    path: str = "/"
    port: int | str = 0


@attrs.frozen(kw_only=True, slots=True)
class TcpSocket:
    port: int | str = 0


class Handler(Protocol):
    """A request over HTTP or TCP that a probe or a hook makes."""

    @property
    def httpGet(self) -> HttpGet | None: ...  # noqa: N802 - Kubernetes' own name

    @property
    def tcpSocket(self) -> TcpSocket | None: ...  # noqa: N802 - Kubernetes' own name


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
class SecretSelector:
    name: str = ""
    key: str = ""
    optional: bool = False


@attrs.frozen(kw_only=True, slots=True)
class ValueSource:
    fieldRef: FieldSelector | None = None
    secretKeyRef: SecretSelector | None = None


@attrs.frozen(kw_only=True, slots=True)
class Variable:
    name: str = ""
    value: str = ""
    valueFrom: ValueSource | None = None


@attrs.frozen(kw_only=True, slots=True)
class ContainerPort:
    name: str = ""
    containerPort: int = 0
    protocol: str = "TCP"


@attrs.frozen(kw_only=True, slots=True)
class VolumeMount:
    name: str = ""
    mountPath: str = ""
    subPath: str = ""


@attrs.frozen(kw_only=True, slots=True)
class KeyToPath:
    """A key of a Secret as a file; without a mode it gets the volume's mode."""

    key: str = ""
    path: str = ""
    mode: int | None = None


@attrs.frozen(kw_only=True, slots=True)
class SecretSource:
    """A Secret as files; without items every key becomes a file."""

    secretName: str = ""
    items: tuple[KeyToPath, ...] = ()
    defaultMode: int = 0o644
    optional: bool = False


@attrs.frozen(kw_only=True, slots=True)
class EmptyDir:
    medium: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Volume:
    """A volume with at most one source; processes get no other kinds of volumes."""

    name: str = ""
    persistentVolumeClaim: ClaimSource | None = None
    secret: SecretSource | None = None
    emptyDir: EmptyDir | None = None
