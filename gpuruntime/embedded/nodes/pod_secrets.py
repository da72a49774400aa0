"""Values of Secrets that Pods use, and the kubelet's words about those that are missing."""

import base64
from collections.abc import Mapping
from typing import Final

from gpuruntime.embedded.kinds.container_objects import SecretSource
from gpuruntime.embedded.kinds.pod_objects import Container, Pod
from gpuruntime.errors import GpuRuntimeError
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.events import Note
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.secrets import SECRETS

# The time after which a missing Secret is looked for again.
RETRY_SECONDS: Final = 0.5


class MissingSecretError(GpuRuntimeError):
    """A Secret, or a key of one, does not exist; the message has the kubelet's words."""


async def variables_of(client: Client, pod: Pod, container: Container) -> dict[str, str]:
    """Return the container's variables with values of Secrets, or raise MissingSecretError."""
    values = {}
    for variable in container.env:
        asked = variable.valueFrom.secretKeyRef if variable.valueFrom else None
        if asked is None:
            continue
        key = Key(pod.metadata.namespace, asked.name)
        data = await _data_of(client, key, optional=asked.optional)
        if asked.key in data:
            values[variable.name] = base64.b64decode(data[asked.key]).decode(errors="replace")
        elif not asked.optional:
            raise MissingSecretError(f"couldn't find key {asked.key} in Secret {key}")
    return values


async def files_of(client: Client, namespace: str, source: SecretSource) -> Mapping[str, str]:
    """Return the Secret's data in base64, or raise MissingSecretError."""
    data = await _data_of(client, Key(namespace, source.secretName), optional=source.optional)
    for item in source.items:
        if item.key not in data and not source.optional:
            raise MissingSecretError(f"references non-existent secret key: {item.key}")
    return data


async def demand_files(client: Client, pod: Pod) -> None:
    """Raise MissingSecretError if a volume of the Pod cannot be set up."""
    for volume in pod.spec.volumes:
        if volume.secret is None:
            continue
        try:
            await files_of(client, pod.metadata.namespace, volume.secret)
        except MissingSecretError as error:
            words = f'MountVolume.SetUp failed for volume "{volume.name}" : {error}'
            raise MissingSecretError(words) from error


def failed_mount(error: MissingSecretError) -> Note:
    return Note("FailedMount", str(error), is_warning=True)


async def _data_of(client: Client, key: Key, *, optional: bool) -> Mapping[str, str]:
    try:
        return (await client.get(SECRETS, key)).data
    except NotFoundError:
        if optional:
            return {}
        raise MissingSecretError(f'secret "{key.name}" not found') from None
