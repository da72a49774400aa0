"""Routes: the target that a path addresses."""

from typing import Final
from urllib.parse import unquote

from gpuruntime.embedded.apiserver.status_errors import unknown_resource
from gpuruntime.embedded.objects.registry import Kind, Registry, Target

OF_NAMESPACES: Final = ("status", "finalize")


def target_of(registry: Registry, path: str) -> Target | None:
    """Return the target, or None if the path is not below a served group and version."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    match parts:
        case ["api", version, *rest] if rest:
            return _target(registry, "", version, rest)
        case ["apis", group, version, *rest] if rest and registry.has_group(group):
            return _target(registry, group, version, rest)
        case _:
            return None


def _target(registry: Registry, group: str, version: str, rest: list[str]) -> Target:
    match rest:
        case ["namespaces", namespace, plural, *below] if plural not in OF_NAMESPACES:
            kind = _kind(registry, group, version, plural)
            if not kind.is_namespaced:
                raise unknown_resource()
            return _below(kind, namespace, below)
        case [plural, *below]:
            kind = _kind(registry, group, version, plural)
            if kind.is_namespaced and below:
                raise unknown_resource()
            return _below(kind, "", below)
        case _:
            raise unknown_resource()


def _kind(registry: Registry, group: str, version: str, plural: str) -> Kind:
    kind = registry.find(group, version, plural)
    if kind is None:
        raise unknown_resource()
    return kind


def _below(kind: Kind, namespace: str, below: list[str]) -> Target:
    match below:
        case []:
            return Target(kind=kind, namespace=namespace)
        case [name]:
            return Target(kind=kind, namespace=namespace, name=name)
        case [name, subresource] if _has(kind, subresource):
            return Target(kind=kind, namespace=namespace, name=name, subresource=subresource)
        case _:
            raise unknown_resource()


def _has(kind: Kind, subresource: str) -> bool:
    is_status = subresource == "status" and kind.has_status
    return is_status or any(each.name == subresource for each in kind.subresources)
