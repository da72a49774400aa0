"""Secrets of tenants: their types, and how units refer to them.

A Secret's name in Kubernetes contains a digest of its tenant and name. A unit's own tenant is part
of the digest, so no unit can refer to another tenant's Secret.
"""

import hashlib
from enum import StrEnum
from typing import Final

import attrs

from gpuruntime.models.definitions.texts import Name, SecretDataKey
from gpuruntime.models.encoding import codec

MOST_SECRETS: Final = 100
MOST_KEYS: Final = 64
MOST_BYTES: Final = 512 * 1024
_DIGEST_LENGTH: Final = 40


class SecretType(StrEnum):
    OPAQUE = "opaque"
    # A login to an image registry, for `imagePullSecrets`.
    REGISTRY = "registry"


KUBERNETES_TYPES: Final = {
    SecretType.OPAQUE: "Opaque",
    SecretType.REGISTRY: "kubernetes.io/dockerconfigjson",
}
DOCKER_CONFIG: Final = ".dockerconfigjson"


@attrs.frozen(kw_only=True, slots=True)
class SecretKey:
    """A value of a secret of the unit's tenant, by its key."""

    name: Name
    key: SecretDataKey


def secret_name_of(tenant: str, name: str) -> str:
    """Return the name in Kubernetes; it shows the caller's name for the kubelet's messages."""
    return f"secret-{name}-{digest_of(tenant, name)}"


def digest_of(*parts: str) -> str:
    return hashlib.sha256(codec.encode(list(parts))).hexdigest()[:_DIGEST_LENGTH]
