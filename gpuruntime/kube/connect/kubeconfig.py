"""Kubeconfig files are read, merged and narrowed to one context; each fault takes one line.

As for kubectl, an entry in an earlier file of the list wins.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import yaml

from gpuruntime.errors import ConfigurationError
from gpuruntime.strict.yaml_faults import fault_of

Members: TypeAlias = dict[str, Any]

DEFAULT_LOCATION = "~/.kube/config"
# The variable of kubectl: the paths of one or more files.
VARIABLE = "KUBECONFIG"
SECTIONS = ("clusters", "contexts", "users")
CLUSTER_PATHS = ("certificate-authority",)
USER_PATHS = ("client-certificate", "client-key", "tokenFile")
CLUSTER_TEXTS = (
    *CLUSTER_PATHS,
    "certificate-authority-data",
    "proxy-url",
    "server",
    "tls-server-name",
)
USER_TEXTS = (*USER_PATHS, "client-certificate-data", "client-key-data", "token")
# YAML can contain them; a path, a URL and a program's arguments cannot.
UNUSABLE = re.compile("[\0\ud800-\udfff]")


@attrs.frozen(kw_only=True, slots=True)
class Selection:
    """The entries of one context, with absolute paths."""

    origin: str
    context: str
    cluster: Members
    user: Members


@attrs.frozen(slots=True)
class _Entry:
    value: Members
    file: Path


@attrs.define(slots=True)
class _Merged:
    current_context: str = ""
    entries: dict[tuple[str, str], _Entry] = attrs.field(factory=dict)

    def names(self, section: str) -> str:
        return ", ".join(sorted(name for kind, name in self.entries if kind == section)) or "none"


def read_selection(paths: str, context: str) -> Selection:
    """Read the given context, or the current one. `paths` are separated as in $PATH."""
    origin = f"kubeconfig {paths}"
    merged = _merge(paths, origin)
    chosen = context or merged.current_context
    if not chosen:
        raise ConfigurationError(
            f"{origin}: no current-context: name one of {merged.names('contexts')}"
        )
    origin = f"{origin}, context {chosen}"
    found = _find(merged, "contexts", chosen, origin).value
    cluster = _find(merged, "clusters", _reference(found, "cluster", origin), origin)
    user = _find(merged, "users", _reference(found, "user", origin), origin)
    _demand_texts(cluster, CLUSTER_TEXTS, f"{origin}: the cluster's")
    _demand_texts(user, USER_TEXTS, f"{origin}: the user's")
    _demand_switch(cluster, "insecure-skip-tls-verify", f"{origin}: the cluster's")
    return Selection(
        origin=origin,
        context=chosen,
        cluster=_with_absolute_paths(cluster, CLUSTER_PATHS, origin),
        user=_with_absolute_command(user, origin),
    )


def is_text(value: object) -> bool:
    return isinstance(value, str) and not UNUSABLE.search(value)


def _merge(paths: str, origin: str) -> _Merged:
    merged = _Merged()
    is_found = False
    for file in (_expanded(path, origin) for path in paths.split(os.pathsep) if path):
        text = _read(file)
        if text is None:
            continue
        is_found = True
        _merge_file(merged, file, text)
    if not is_found:
        raise ConfigurationError(f"{origin}: no such file: give the path of one that exists")
    return merged


def _merge_file(merged: _Merged, file: Path, text: str) -> None:
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigurationError(f"kubeconfig {file}: not YAML: {fault_of(error)}") from None
    if not isinstance(document, dict):
        raise ConfigurationError(f"kubeconfig {file}: not a mapping: is this a kubeconfig?")
    merged.current_context = merged.current_context or str(document.get("current-context") or "")
    for section in SECTIONS:
        for name, value in _entries(document, section, file):
            merged.entries.setdefault((section, name), _Entry(value, file))


def _entries(document: Members, section: str, file: Path) -> Iterator[tuple[str, Members]]:
    listed = document.get(section) or []
    if not isinstance(listed, list):
        raise ConfigurationError(f"kubeconfig {file}: {section} is not a list")
    member = section.removesuffix("s")
    for index, item in enumerate(listed):
        if not isinstance(item, dict) or "name" not in item:
            raise ConfigurationError(f"kubeconfig {file}: {section}[{index}] has no name")
        value = item.get(member) or {}
        if not isinstance(value, dict):
            raise ConfigurationError(
                f"kubeconfig {file}: {section}[{index}].{member} is not a mapping"
            )
        yield str(item["name"]), value


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"kubeconfig {file}: cannot be read: {error}: check its mode and its owner"
        ) from error


def _find(merged: _Merged, section: str, name: str, origin: str) -> _Entry:
    entry = merged.entries.get((section, name))
    if entry is None:
        member = section.removesuffix("s")
        raise ConfigurationError(
            f"{origin}: there is no {member} {name!r}: the {section} are {merged.names(section)}"
        )
    return entry


def _reference(context: Members, member: str, origin: str) -> str:
    name = context.get(member)
    if not name:
        raise ConfigurationError(f"{origin}: the context names no {member}: add one")
    return str(name)


def _demand_texts(entry: _Entry, members: tuple[str, ...], subject: str) -> None:
    """Check that the members are texts. A bad value is not quoted: it may be a secret."""
    for member in members:
        value = entry.value.get(member)
        if value is not None and not is_text(value):
            raise ConfigurationError(
                f"{subject} {member} is not plain text: write it in quotes and without NUL"
            )


def _demand_switch(entry: _Entry, member: str, subject: str) -> None:
    """Check that the member is a boolean: any text would count as true."""
    if not isinstance(entry.value.get(member), bool | None):
        raise ConfigurationError(
            f"{subject} {member} is neither true nor false: write it without quotes"
        )


def _expanded(path: str, subject: str) -> Path:
    if not is_text(path):
        raise ConfigurationError(f"{subject}: the path holds characters that no file name has")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigurationError(
            f"{subject}: {path}: no such home directory: write the path in full"
        ) from error


def _with_absolute_paths(entry: _Entry, members: tuple[str, ...], origin: str) -> Members:
    folder = entry.file.parent.absolute()
    absolute = {
        member: str(folder / _expanded(entry.value[member], f"{origin}: {member}"))
        for member in members
        if entry.value.get(member)
    }
    return {**entry.value, **absolute}


def _with_absolute_command(entry: _Entry, origin: str) -> Members:
    """Resolve a plugin with a slash in its name beside the file; others are found in $PATH."""
    user = _with_absolute_paths(entry, USER_PATHS, origin)
    plugin = user.get("exec")
    if isinstance(plugin, dict) and "/" in str(plugin.get("command") or ""):
        command = entry.file.parent.absolute() / str(plugin["command"])
        user["exec"] = {**plugin, "command": str(command)}
    return user
