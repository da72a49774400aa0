"""The volumes of a Pod as plain folders, and the folder of each mount.

A process sees the machine's own file system, so no mount is at the Pod's path. Texts that contain
mount paths, also in files of Secrets, therefore get the real paths.
"""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpuruntime.embedded.controllers.informers import Informers
from gpuruntime.embedded.kinds.container_objects import KeyToPath, SecretSource, Volume
from gpuruntime.embedded.kinds.pod_objects import Container, Pod
from gpuruntime.embedded.nodes.pod_secrets import demand_files, files_of
from gpuruntime.embedded.processes.start_plan import relocated
from gpuruntime.errors import GpuRuntimeError
from gpuruntime.kube.client import Client
from gpuruntime.models.kubernetes.metadata import Key

OPEN_TO_ALL: Final = 0o777


class NotYetError(GpuRuntimeError):
    """Something that the Pod mounts does not exist yet, or cannot be written yet."""


class PodFolder:
    """The folder of a Pod; its path is short, because a socket's path must fit into 107 bytes."""

    def __init__(self, root: Path, pod: Pod, client: Client, informers: Informers) -> None:
        self._root = root
        self._pod = pod
        self._client = client
        self._informers = informers
        self._folders: dict[str, Path] = {}
        # A mount below one of these volumes may be a file.
        self._of_secrets = {each.name for each in pod.spec.volumes if each.secret is not None}

    async def prepare(self) -> None:
        """Create folders and write Secrets; repeat it to update Secrets.

        Raise NotYetError or MissingSecretError if something does not exist yet, and NotYetError
        if something cannot be written, for example because the disk is full.
        """
        await demand_files(self._client, self._pod)
        try:
            await self._write_all()
        except (OSError, ValueError) as error:  # a path with NUL is a ValueError
            raise NotYetError(f"its volumes cannot be written: {error}") from error

    async def _write_all(self) -> None:
        self._folders = {
            volume.name: self._folder(volume, self._root / str(number))
            for number, volume in enumerate(self._pod.spec.volumes)
        }
        for container in (*self._pod.spec.containers, *self._pod.spec.initContainers):
            self._create_mounts(container)
        for volume in self._pod.spec.volumes:
            if volume.secret is not None:
                await self._write(volume.secret, volume.name)

    def places_of(self, container: Container) -> dict[str, str]:
        """Return the folder of each mount path of the container."""
        return {
            mount.mountPath.rstrip("/"): str(self._folders[mount.name] / mount.subPath)
            for mount in container.volumeMounts
        }

    def _create_mounts(self, container: Container) -> None:
        for mount in container.volumeMounts:
            if mount.name not in self._of_secrets:
                place = self._folders[mount.name] / mount.subPath
                place.mkdir(parents=True, exist_ok=True)

    def _folder(self, volume: Volume, own: Path) -> Path:
        source = volume.persistentVolumeClaim
        folder = own if source is None else self._claimed(source.claimName)
        folder.mkdir(parents=True, exist_ok=True)
        if volume.emptyDir is not None:
            folder.chmod(OPEN_TO_ALL)
        return folder

    def _claimed(self, name: str) -> Path:
        claim = self._informers.claims.store.get(Key(self._pod.metadata.namespace, name))
        volume_name = claim.spec.volumeName if claim else ""
        volume = self._informers.volumes.store.get(Key("", volume_name))
        if volume is None or volume.spec.hostPath is None:
            raise NotYetError(f"persistentvolumeclaim {name} has no volume yet")
        return Path(volume.spec.hostPath.path)

    async def _write(self, source: SecretSource, name: str) -> None:
        """Write the Secret's files, with the paths of the containers that mount it."""
        readers = [
            container
            for container in (*self._pod.spec.containers, *self._pod.spec.initContainers)
            if name in {mount.name for mount in container.volumeMounts}
        ]
        places = {path: it for each in readers for path, it in self.places_of(each).items()}
        data = await files_of(self._client, self._pod.metadata.namespace, source)
        for item in source.items or [KeyToPath(key=each, path=each) for each in data]:
            if item.key in data:
                mode = source.defaultMode if item.mode is None else item.mode
                self._put(self._folders[name] / item.path, _text(data[item.key], places), mode)

    def _put(self, file: Path, content: bytes, mode: int) -> None:
        """Replace the file in one step; no more users can ever read it than its mode permits."""
        if file.exists() and file.read_bytes() == content:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        # In no volume: any name there may be a key's. No folder and no log has this name.
        written = self._root / ".new"
        written.unlink(missing_ok=True)
        written.touch(mode=0o600)
        written.write_bytes(content)
        written.chmod(mode)
        written.replace(file)


def _text(encoded: str, places: Mapping[str, str]) -> bytes:
    """Return the text with real paths, or the content unchanged if it is no text."""
    content = base64.b64decode(encoded)
    try:
        return relocated(content.decode(), places).encode()
    except UnicodeDecodeError:
        return content
