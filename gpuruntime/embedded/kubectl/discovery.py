"""Discovery: health, version, groups, resources and schemas."""

from collections.abc import Iterator
from typing import Final

from gpuruntime.embedded.apiserver.documents import Document, encode
from gpuruntime.embedded.apiserver.status_errors import unknown_resource
from gpuruntime.embedded.kubectl.openapi import Schemas
from gpuruntime.embedded.objects.namespaces import NAMESPACES
from gpuruntime.embedded.objects.registry import Kind, Registry, Subresource
from gpuruntime.kube.transport import JSON, Request, Response

VERSION: Final = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.0+gpuruntime",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS: Final = ("get", "patch", "update")
TEXT: Final = "text/plain; charset=utf-8"
AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Discovery:
    """Answers built from the registry, so that a definition shows as soon as it is stored."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._schemas = Schemas(registry)

    def answer(self, request: Request) -> Response | None:
        """Return the answer, or None if the path is unknown."""
        if request.method != "GET":
            return None
        wants_all = _wants_all(request.accept)
        match request.path.strip("/").split("/"):
            case ["healthz" | "livez" | "readyz", *_]:
                return Response(status=200, headers={"content-type": TEXT}, body=b"ok")
            case ["version"]:
                return _shown(VERSION)
            case ["openapi", "v3"]:
                return _shown(self._schemas.index())
            case ["openapi", "v3", *place]:
                body = self._schemas.document("/".join(place))
                return None if body is None else _json(body)
            case ["api" | "apis" as root] if wants_all:
                return _json(encode(self._everything(is_core=root == "api")), AGGREGATED)
            case ["api"]:
                return _shown(CORE)
            case ["apis"]:
                return _shown(self._groups())
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group]:
                return self._group(group)
            case ["apis", group, version] if self._registry.has_group(group):
                return self._resources(group, version)
            case _:
                return None

    def _kinds(self, group: str, version: str) -> list[Kind]:
        kinds = (kind for kind in self._registry if (kind.group, kind.version) == (group, version))
        return sorted(kinds, key=lambda kind: kind.plural)

    def _versions(self) -> dict[str, list[str]]:
        """Return the versions of each group but the core, the preferred one first."""
        found: dict[str, list[str]] = {}
        for kind in self._registry:
            versions = found.setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
        found.pop("", None)
        return {group: sorted(versions, key=_maturity) for group, versions in found.items()}

    def _groups(self) -> Document:
        groups = [_group(name, versions) for name, versions in self._versions().items()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group(self, name: str) -> Response | None:
        versions = self._versions().get(name)
        if versions is None:
            return None
        return _shown({"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)})

    def _resources(self, group: str, version: str) -> Response:
        kinds = self._kinds(group, version)
        if not kinds:
            raise unknown_resource()
        resources = [resource for kind in kinds for resource in _resources(kind)]
        listed: Document = {"kind": "APIResourceList", "apiVersion": "v1"}
        return _shown({**listed, "groupVersion": kinds[0].api_version, "resources": resources})

    def _everything(self, *, is_core: bool) -> Document:
        groups = {"": ["v1"]} if is_core else self._versions()
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [
                {
                    "metadata": {"name": group} if group else {},
                    "versions": [
                        {
                            "version": version,
                            "resources": [
                                _described(each) for each in self._kinds(group, version)
                            ],
                            "freshness": "Current",
                        }
                        for version in versions
                    ],
                }
                for group, versions in groups.items()
            ],
        }


CORE: Final = {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def subresources_of(kind: Kind) -> Iterator[Subresource]:
    yield from kind.subresources
    if kind.has_status:
        yield Subresource(name="status", kind=kind.kind, verbs=STATUS_VERBS)


def _verbs(kind: Kind) -> list[str]:
    return [verb for verb in VERBS if kind is not NAMESPACES or verb != "deletecollection"]


def _group(name: str, versions: list[str]) -> Document:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resources(kind: Kind) -> Iterator[Document]:
    resource: Document = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.is_namespaced,
        "kind": kind.kind,
        "verbs": _verbs(kind),
    }
    if kind.short_names:
        resource["shortNames"] = list(kind.short_names)
    if kind.categories:
        resource["categories"] = list(kind.categories)
    yield resource
    for each in subresources_of(kind):
        below: Document = {
            "name": f"{kind.plural}/{each.name}",
            "singularName": "",
            "namespaced": kind.is_namespaced,
            "kind": each.kind,
            "verbs": list(each.verbs),
        }
        foreign = {"group": each.group, "version": each.version} if each.version else {}
        yield {**below, **foreign}


def _described(kind: Kind) -> Document:
    described: Document = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.is_namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": _verbs(kind),
        "subresources": [
            {
                "subresource": each.name,
                "responseKind": {
                    "group": each.group or kind.group,
                    "version": each.version or kind.version,
                    "kind": each.kind,
                },
                "verbs": list(each.verbs),
            }
            for each in subresources_of(kind)
        ],
    }
    if kind.short_names:
        described["shortNames"] = list(kind.short_names)
    if kind.categories:
        described["categories"] = list(kind.categories)
    return described


def _maturity(version: str) -> tuple[bool, bool, str]:
    return "alpha" in version, "beta" in version, version


def _wants_all(accept: str) -> bool:
    clauses = ({part.strip() for part in clause.split(";")} for clause in accept.split(","))
    return any({"as=APIGroupDiscoveryList", "v=v2"} <= clause for clause in clauses)


def _shown(document: Document) -> Response:
    return _json(encode(document))


def _json(body: bytes, content_type: str = JSON) -> Response:
    return Response(status=200, headers={"content-type": content_type}, body=body)
