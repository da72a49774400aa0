"""The names that this version of the product declares, or has as texts in its source."""

import ast
import asyncio
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import yaml

from gpuruntime.bus.names import Names
from gpuruntime.embedded.nodes import failures
from gpuruntime.kube import errors
from gpuruntime.manifests import overlays
from gpuruntime.models.definitions import crds
from gpuruntime.models.kinds import labels
from gpuruntime.settings.schema import Settings
from gpuruntime.settings.values import Address
from gpuruntime.telemetry.catalogue import CATALOGUE
from tests.proofs.docs.command_lines import lenient, parsers
from tests.proofs.docs.pages import ROOT
from tests.proofs.monitoring.rules import alerts
from tests.rooms.api.service import service
from tests.rooms.operations.cluster import Cluster

SOURCES = ("gpuruntime", "examples")


@cache
def words() -> frozenset[str]:
    """Return every name of an interface of the product, and every whole text of its source."""
    found = {*literals(), *sessions(), *vars(errors), *_of_streams()}
    found |= {member for each in _sources() for member in each.logged}
    found |= {*_of_manifests(), *(alert.name for alert in alerts())}
    found |= {label.name for metric in CATALOGUE for label in metric.labels}
    found |= {each.prog.rpartition(" ")[2] for each in parsers(lenient())}
    found |= {str(each) for node in schemas() for each in node.get("enum", ())}
    found |= {name for each in schemas() for name in each.get("properties", {})}
    found |= {end for path in (*settings(), *_paths()) for end in _ends(path)}
    ours = {each for of in (labels, failures) for each in vars(of).values() if type(each) is str}
    return frozenset(found | ours | {each.rpartition("/")[2] for each in ours})


@cache
def schemas() -> list[Mapping[str, Any]]:
    """Return every node of the definitions and of the OpenAPI document."""
    return list(_nodes([*yaml.load_all(crds.render(), yaml.CSafeLoader), served()[1]]))


@cache
def routes() -> frozenset[tuple[str, str]]:
    """Return method and path of every route of the API, of the document and of its router."""
    described = (
        (method.upper(), path)
        for path, methods in served()[1]["paths"].items()
        for method in methods
    )
    return frozenset({*served()[0], *described})


@cache
def parameters() -> frozenset[str]:
    return frozenset(str(each["name"]) for each in schemas() if {"name", "in"} <= each.keys())


@cache
def served() -> tuple[frozenset[tuple[str, str]], Any]:
    """Return method and path of every route of the API's router, and its OpenAPI document."""

    async def read() -> tuple[frozenset[tuple[str, str]], Any]:
        async with service(Cluster()) as api:
            found = api.client.app.router.routes()
            pairs = {(each.method, each.resource.canonical) for each in found if each.resource}
            return frozenset(pairs), (await api.call("GET", "/openapi.json")).body

    return asyncio.run(read())


@cache
def settings() -> frozenset[str]:
    """Return the keys of the configuration, and those of their sections."""

    def keys(section: Any, path: str = "") -> Iterator[str]:
        for field in attrs.fields(type(section)):
            value = getattr(section, field.name)
            yield path + field.name
            if attrs.has(type(value)) and not isinstance(value, Address):
                yield from keys(value, f"{path}{field.name}.")

    return frozenset(keys(Settings()))


@cache
def literals() -> frozenset[str]:
    """Return the texts in the source, with a pair of braces for each value in them."""
    return frozenset[str]().union(*(each.literals for each in _sources()))


@cache
def identifiers(folder: str) -> frozenset[str]:
    """Return the names of modules, classes, functions and members below a folder."""
    return frozenset[str]().union(*(each.identifiers for each in _sources(folder)))


@cache
def files() -> frozenset[str]:
    """Return every file and folder of the repository, by its path and by each end of that."""
    folders = ("docs", "examples", "gpuruntime", "manifests", "tests")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    parts = [path.relative_to(ROOT).parts for path in (*found, *ROOT.iterdir())]
    return frozenset("/".join(each[at:]) for each in parts for at in range(len(each)))


@cache
def sessions() -> frozenset[str]:
    found = re.findall(r"@nox\.session.*\ndef (\w+)", (ROOT / "noxfile.py").read_text())
    return frozenset(name.replace("_", "-") for name in found)


@attrs.frozen
class _Source:
    """The names of one module. Its syntax tree is not kept: those of all modules need 300 MB."""

    literals: frozenset[str]
    identifiers: frozenset[str]
    # The members that its log lines get.
    logged: frozenset[str]


def _sources(*folders: str) -> Iterator[_Source]:
    for folder in folders or SOURCES:
        yield from map(_source, (ROOT / folder).rglob("*.py"))


@cache
def _source(path: Path) -> _Source:
    """Read a module without its sentences that stand alone."""
    nodes = list(ast.walk(ast.parse(path.read_bytes())))
    statements = (each.value for each in nodes if isinstance(each, ast.Expr))
    alone = {id(each) for each in statements if isinstance(each, ast.Constant)}
    literals, identifiers, logged = set[str](), {path.stem}, set[str]()
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)) if id(node) not in alone:
                literals.add(text)
            case ast.JoinedStr():
                parts = (getattr(each, "value", None) for each in node.values)
                literals.add("".join(each if isinstance(each, str) else "{}" for each in parts))
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                identifiers.add(node.name)
            case ast.arg():
                identifiers.add(node.arg)
            case ast.Name():
                identifiers.add(node.id)
            case ast.Attribute():
                identifiers.add(node.attr)
            case ast.Call():
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in {"info", "warning", "error", "exception", "bind_contextvars"}:
                    logged |= {each.arg for each in node.keywords if each.arg}
            case _:
                pass
    return _Source(frozenset(literals), frozenset(identifiers), frozenset(logged))


def _of_streams() -> Iterator[str]:
    names = Names(Settings().nats.subjectPrefix)
    for name, value in vars(Names).items():
        if isinstance(value, property):
            yield str(getattr(names, name))


def _nodes(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            yield from _nodes(each)


def _ends(path: str) -> Iterator[str]:
    """Yield the path and its shorter ends: `a.b.c`, `b.c`, `c`."""
    while path:
        yield path
        path = path.partition(".")[2]


def _paths() -> Iterator[str]:
    """Yield the paths of all fields of our kinds, such as `status.serverless.reason`."""

    def below(schema: Mapping[str, Any], path: str) -> Iterator[str]:
        for name, field in schema.get("properties", {}).items():
            yield f"{path}{name}"
            yield from below(field.get("items", field), f"{path}{name}.")

    for definition in yaml.load_all(crds.render(), yaml.CSafeLoader):
        for version in definition["spec"]["versions"]:
            yield from below(version["schema"]["openAPIV3Schema"], "")


def _of_manifests() -> Iterator[str]:
    """Yield every key and every value of the manifests, and each key of a configuration."""

    def leaves(value: Any) -> Iterator[str]:
        match value:
            case dict():
                for key, each in value.items():
                    yield key
                    yield from leaves(each)
            case list():
                for each in value:
                    yield from leaves(each)
            case _:
                yield str(value)

    texts = [overlays.text_of(overlays.Overlay.FULL), crds.render()]
    for folder in (ROOT / "manifests", ROOT / "examples" / "broker"):
        texts += [path.read_text() for path in folder.rglob("*.yaml")]
    for text in texts:
        for document in yaml.load_all(text, yaml.CSafeLoader):
            yield from leaves(document)
