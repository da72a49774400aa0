"""A packer of OCI archives, which needs no container engine: root folders become layers.

The same folders always give the same digest. Only names, modes, links and bytes are packed, and
everything belongs to root.
"""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

MEDIA_TYPE = "application/vnd.oci.image."
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@attrs.frozen(kw_only=True)
class Image:
    """The configuration of an image; its name includes registry and tag."""

    name: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""
    environment: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Blob:
    media_type: str
    digest: str
    size: int

    @property
    def path(self) -> str:
        return f"blobs/sha256/{self.digest}"

    def described(self) -> dict[str, Any]:
        return {
            "mediaType": MEDIA_TYPE + self.media_type,
            "digest": f"sha256:{self.digest}",
            "size": self.size,
        }


def pack(archive: Path, image: Image, layers: Iterable[Path]) -> str:
    """Write an archive for `ctr images import`, and return the digest of the image's content."""
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as output:
        blobs = [_add_layer(output, layer, archive.with_suffix(".layer")) for layer in layers]
        config = _add_document(output, "config.v1+json", _config(image, blobs))
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA_TYPE}manifest.v1+json",
            "config": config.described(),
            "layers": [blob.described() for blob in blobs],
        }
        entry = _add_document(output, "manifest.v1+json", manifest)
        _add(output, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(output, "index.json", _encoded(_index(image, entry)))
    return f"sha256:{entry.digest}"


def _index(image: Image, manifest: Blob) -> dict[str, Any]:
    annotations = {
        "io.containerd.image.name": image.name,
        "org.opencontainers.image.ref.name": image.name.rpartition(":")[2],
    }
    return {
        "schemaVersion": 2,
        "manifests": [{**manifest.described(), "annotations": annotations}],
    }


def _config(image: Image, layers: list[Blob]) -> dict[str, Any]:
    environment = {"PATH": SEARCH_PATH, **image.environment}
    optional = {
        "Entrypoint": list(image.entrypoint),
        "Cmd": list(image.command),
        "User": image.user,
    }
    return {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "WorkingDir": "/",
            **{name: value for name, value in optional.items() if value},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in layers]},
    }


def _add_layer(output: tarfile.TarFile, root: Path, scratch: Path) -> Blob:
    """Pack the layer through a file, because it may be too large for memory."""
    try:
        with tarfile.open(scratch, "w", format=tarfile.PAX_FORMAT) as layer:
            for path in sorted(root.rglob("*")):
                name = str(path.relative_to(root))
                layer.add(path, name, recursive=False, filter=_anonymous)
        with scratch.open("rb") as packed:
            digest = hashlib.file_digest(packed, "sha256").hexdigest()
        blob = Blob("layer.v1.tar", digest, scratch.stat().st_size)
        output.add(scratch, blob.path, filter=_anonymous)
    finally:
        scratch.unlink(missing_ok=True)
    return blob


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member


def _add_document(output: tarfile.TarFile, media_type: str, document: object) -> Blob:
    data = _encoded(document)
    blob = Blob(media_type, hashlib.sha256(data).hexdigest(), len(data))
    _add(output, blob.path, data)
    return blob


def _add(output: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    output.addfile(member, io.BytesIO(data))


def _encoded(document: object) -> bytes:
    return json.dumps(document, sort_keys=True).encode()
