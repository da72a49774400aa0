"""The rule of a worker's Pod: it has the sidecar, and no other container reads its Secret.

Deployments are judged instead of Pods, since no container can be added to an existing Pod.
"""

from collections.abc import Iterator

import attrs

from gpuruntime.audit.breach import Finding, reference_to
from gpuruntime.audit.children import is_left_behind
from gpuruntime.audit.index import SnapshotIndex
from gpuruntime.models.encoding import codec
from gpuruntime.models.kinds.provenance import is_terminating
from gpuruntime.models.kinds.units import GPUUnit, child_key
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.workloads import Deployment


@attrs.frozen(kw_only=True, slots=True)
class _Named:
    name: str = ""


@attrs.frozen(kw_only=True, slots=True)
class _SecretVolume:
    secretName: str = ""


@attrs.frozen(kw_only=True, slots=True)
class _Source:
    secret: _Named | None = None


@attrs.frozen(kw_only=True, slots=True)
class _Projected:
    sources: tuple[_Source, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class _Volume:
    name: str = ""
    secret: _SecretVolume | None = None
    projected: _Projected | None = None


@attrs.frozen(kw_only=True, slots=True)
class _ValueFrom:
    secretKeyRef: _Named | None = None


@attrs.frozen(kw_only=True, slots=True)
class _Variable:
    valueFrom: _ValueFrom | None = None


@attrs.frozen(kw_only=True, slots=True)
class _Variables:
    secretRef: _Named | None = None


@attrs.frozen(kw_only=True, slots=True)
class _Container:
    name: str = ""
    restartPolicy: str = ""
    env: tuple[_Variable, ...] = ()
    envFrom: tuple[_Variables, ...] = ()
    volumeMounts: tuple[_Named, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class _PodSpec:
    initContainers: tuple[_Container, ...] = ()
    containers: tuple[_Container, ...] = ()
    volumes: tuple[_Volume, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class _Template:
    spec: _PodSpec = _PodSpec()


@attrs.frozen(kw_only=True, slots=True)
class _DeploymentSpec:
    template: _Template = _Template()


def worker_beside(deployment: Deployment, index: SnapshotIndex) -> Iterator[Finding]:
    """A worker's Deployment is created with the sidecar, which alone has the worker's login.

    The remains of a deleted worker are allowed, even while the next worker has its name.
    """
    spec = bytes(deployment.spec)
    if is_terminating(deployment) or is_left_behind(deployment, index):
        return
    worker = _worker_of(deployment, index)
    if worker is None and b'"secret' not in spec:
        return
    pod = codec.decode(spec, _DeploymentSpec).template.spec
    own = child_key(worker) if worker else None
    namespace, has_sidecar = deployment.metadata.namespace, False
    for container in (*pod.initContainers, *pod.containers):
        is_sidecar = container in pod.initContainers and container.restartPolicy == "Always"
        for name in sorted(_secrets_of(container, pod.volumes)):
            secret = Key(namespace, name)
            if secret == own and is_sidecar and not has_sidecar:
                has_sidecar = True
            elif secret in index.worker_by_secret:
                yield _reads(deployment, container, secret)
    if worker is not None and not has_sidecar:
        yield _found(
            deployment,
            f"runs {reference_to(worker)} without a worker that has Secret {own}",
            "see that a manager leads, which mends it; its function is not served there",
        )


def _worker_of(deployment: Deployment, index: SnapshotIndex) -> GPUUnit | None:
    owner = deployment.metadata.controller_owner
    unit = index.unit_by_uid.get(owner.uid) if owner else None
    is_worker = unit is not None and index.worker_by_secret.get(child_key(unit)) is unit
    return unit if is_worker else None


def _secrets_of(container: _Container, volumes: tuple[_Volume, ...]) -> set[str]:
    mounted = {mount.name for mount in container.volumeMounts}
    names = {name for volume in volumes if volume.name in mounted for name in _sources(volume)}
    sources = (variable.valueFrom for variable in container.env)
    names |= {each.secretKeyRef.name for each in sources if each and each.secretKeyRef}
    return names | {each.secretRef.name for each in container.envFrom if each.secretRef}


def _sources(volume: _Volume) -> Iterator[str]:
    if volume.secret is not None:
        yield volume.secret.secretName
    for source in volume.projected.sources if volume.projected else ():
        if source.secret is not None:
            yield source.secret.name


def _reads(deployment: Deployment, container: _Container, secret: Key) -> Finding:
    return _found(
        deployment,
        f"lets container {container.name} read Secret {secret}, which is a worker's alone",
        "delete the Deployment and the Secret: both are created again, with another login",
        version=container.name,
    )


def _found(deployment: Deployment, fault: str, remedy: str, *, version: str = "") -> Finding:
    return Finding(
        objects=(reference_to(deployment),),
        message=f"{reference_to(deployment)} {fault}",
        remedy=remedy,
        version=version,
    )
