"""Manifests rendered as `kubectl kustomize` renders them, for machines without kubectl.

Only the features that our own kustomizations use are supported; any other is refused.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
import yaml

from gpuruntime.errors import ConfigurationError

Document: TypeAlias = dict[str, Any]

FILE: Final = "kustomization.yaml"
# Supported fields of a kustomization, and of the entries of its lists that are not paths.
KNOWN: Final = {
    "apiVersion": None,
    "kind": None,
    "resources": None,
    "components": None,
    "sortOptions": None,
    "configMapGenerator": {"name", "namespace", "behavior", "files"},
    "patches": {"path"},
    "images": {"name", "newTag"},
}
# The member that identifies an entry when a patch merges two lists.
MERGE_KEYS: Final = {
    "containers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
}
# Kustomize replaces digits and letters that could form words in names of generated ConfigMaps.
HASH_LENGTH: Final = 10
HASH_LETTERS: Final = str.maketrans("013ae", "ghkmt")


@attrs.frozen
class _Rendered:
    """A document; a generated one gets the hash of its contents into its name, at the very end."""

    body: Document
    is_generated: bool = False


def documents(folder: Path) -> list[Document]:
    """Return the patched and renamed documents, in the order of the resources."""
    rendered = _render(folder)
    names = {_key(each.body): _hashed_name(each.body) for each in rendered if each.is_generated}
    return [_renamed(each, names) for each in rendered]


def _render(folder: Path) -> list[_Rendered]:
    loaded = _load(folder / FILE)
    rendered = [
        each
        for name in (*loaded.get("resources", ()), *loaded.get("components", ()))
        for each in _resources(folder / name)
    ]
    for given in loaded.get("configMapGenerator", ()):
        rendered = _with_generated(
            rendered, _config_map(folder, given), given.get("behavior", "create")
        )
    for given in loaded.get("patches", ()):
        [patch] = _read(folder / given["path"])
        rendered = [_patched(each, patch) for each in rendered]
    tags = {image["name"]: image["newTag"] for image in loaded.get("images", ())}
    return [attrs.evolve(each, body=_tagged(each.body, tags)) for each in rendered]


def _load(path: Path) -> Document:
    loaded: Document = yaml.safe_load(path.read_text(encoding="utf-8"))
    unknown = set(loaded) - set(KNOWN)
    for name, known in KNOWN.items():
        if known is not None:
            unknown |= {
                f"{name}.{key}" for each in loaded.get(name, ()) for key in each.keys() - known
            }
    if unknown:
        raise ConfigurationError(f"{path}: not supported: {', '.join(sorted(unknown))}")
    return loaded


def _resources(path: Path) -> Iterator[_Rendered]:
    if path.is_dir():
        yield from _render(path)
    else:
        yield from (_Rendered(body) for body in _read(path))


def _read(path: Path) -> list[Document]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def _key(body: Document) -> tuple[str, str, str]:
    metadata = body["metadata"]
    return body["kind"], metadata.get("namespace", ""), metadata["name"]


def _config_map(folder: Path, given: Document) -> Document:
    data = {}
    for file in given["files"]:
        name, _, path = file.rpartition("=")
        data[name or path] = (folder / path).read_text(encoding="utf-8")
    metadata = {"name": given["name"], "namespace": given["namespace"]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _with_generated(rendered: list[_Rendered], body: Document, behavior: str) -> list[_Rendered]:
    """Add a generated ConfigMap, or put it in the place of the one that it replaces."""
    is_there = _key(body) in [_key(each.body) for each in rendered]
    if (behavior == "replace") is not is_there:
        found = "there already" if is_there else "not there"
        raise ConfigurationError(f"{behavior} of ConfigMap {body['metadata']['name']}: {found}")
    added = _Rendered(body, is_generated=True)
    if behavior != "replace":
        return [*rendered, added]
    return [added if _key(each.body) == _key(body) else each for each in rendered]


def _patched(rendered: _Rendered, patch: Document) -> _Rendered:
    if _key(rendered.body) != _key(patch):
        return rendered
    return attrs.evolve(rendered, body=_merged(rendered.body, patch))


def _merged(value: Document, patch: Document) -> Document:
    merged = dict(value)
    for name, change in patch.items():
        there = merged.get(name)
        if isinstance(there, dict) and isinstance(change, dict):
            merged[name] = _merged(there, change)
        elif isinstance(there, list) and name in MERGE_KEYS:
            merged[name] = _merged_list(there, change, MERGE_KEYS[name])
        else:
            merged[name] = change
    return merged


def _merged_list(there: list[Document], changes: list[Document], key: str) -> list[Document]:
    """Merge two lists; new entries come first."""
    by_key = {change[key]: change for change in changes}
    known = {each[key] for each in there}
    added = [change for change in changes if change[key] not in known]
    return [*added, *(_merged(each, by_key.get(each[key], {})) for each in there)]


def _tagged(value: Any, tags: Document) -> Any:
    match value:
        case {"image": str(image), **rest} if image in tags:
            return {**rest, "image": f"{image}:{tags[image]}"}
        case dict():
            return {name: _tagged(member, tags) for name, member in value.items()}
        case list():
            return [_tagged(member, tags) for member in value]
        case _:
            return value


def _hashed_name(body: Document) -> str:
    """Return the name that kustomize gives, so that installing by either tool restarts no Pod.

    Its hash leaves out the name.
    """
    name: str = body["metadata"]["name"]
    content = {"kind": "ConfigMap", "name": "", "data": body["data"]}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for letter in "<>&":  # as Go's JSON encoder does
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{name}-{digest[:HASH_LENGTH].translate(HASH_LETTERS)}"


def _renamed(rendered: _Rendered, names: dict[tuple[str, str, str], str]) -> Document:
    """Put generated names in; here only volumes refer to ConfigMaps."""
    body = rendered.body
    if rendered.is_generated:
        return {**body, "metadata": {**body["metadata"], "name": names[_key(body)]}}
    namespace = body["metadata"].get("namespace", "")
    there = {name: new for (_, at, name), new in names.items() if at == namespace}
    renamed: Document = _with_new_names(body, there)
    return renamed


def _with_new_names(value: Any, names: dict[str, str]) -> Any:
    match value:
        case {"configMap": {"name": str(name), **more}, **rest} if name in names:
            return {**rest, "configMap": {**more, "name": names[name]}}
        case dict():
            return {name: _with_new_names(member, names) for name, member in value.items()}
        case list():
            return [_with_new_names(member, names) for member in value]
        case _:
            return value


def text_of(given: Iterable[Document]) -> str:
    """Return the YAML, byte for byte as `kubectl kustomize` prints it."""
    return yaml.dump_all(given, Dumper=_Dumper)


class _Dumper(yaml.SafeDumper):
    """Write YAML as kustomize does: no aliases, blocks for lines, quotes for ambiguous text."""

    def ignore_aliases(self, _data: object) -> bool:
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        plain = self.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]  # PyYAML has no types for it
        style = "|" if "\n" in text else '"' if plain != _TEXT else None
        return self.represent_scalar(_TEXT, text, style=style)


_TEXT: Final = "tag:yaml.org,2002:str"
_Dumper.add_representer(str, _Dumper.represent_text)
