"""How a unit's Pod refers to secrets: by names that contain a digest of the unit's tenant."""

from typing import Final

from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.secrets import secret_name_of
from gpuruntime.models.kinds.templates import EnvVar
from gpuruntime.models.kinds.units import GPUUnit

# The container may run as any user, and no other container mounts the files.
FILE_MODE: Final = 0o444


def secret_name(unit: GPUUnit, name: str) -> str:
    return secret_name_of(unit.metadata.labels.get(labels.TENANT, ""), name)


def variable(unit: GPUUnit, env: EnvVar) -> JsonObject:
    if env.secret is None:
        return {"name": env.name, "value": env.value}
    reference: JsonObject = {"name": secret_name(unit, env.secret.name), "key": env.secret.key}
    return {"name": env.name, "valueFrom": {"secretKeyRef": reference}}


def secret_volumes(unit: GPUUnit) -> list[JsonObject]:
    """Return a volume for each secret with files, of only the keys that the unit names."""
    return [
        {
            "name": _volume_name(index),
            "secret": {
                "secretName": secret_name(unit, name),
                "items": [{"key": key, "path": key} for key in keys],
                "defaultMode": FILE_MODE,
            },
        }
        for index, (name, keys) in enumerate(_keys_by_secret(unit).items())
    ]


def secret_mounts(unit: GPUUnit) -> list[JsonObject]:
    indexes = {name: index for index, name in enumerate(_keys_by_secret(unit))}
    return [
        {
            "name": _volume_name(indexes[file.secret.name]),
            "mountPath": file.path,
            "subPath": file.secret.key,
            "readOnly": True,
        }
        for file in unit.spec.template.files
    ]


def _keys_by_secret(unit: GPUUnit) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for file in unit.spec.template.files:
        of_secret = keys.setdefault(file.secret.name, [])
        if file.secret.key not in of_secret:
            of_secret.append(file.secret.key)
    return keys


def _volume_name(index: int) -> str:
    return f"secret-{index}"
