"""The look-up of a page's facts in what the product has, for each kind of facts."""

import re
import tempfile
from collections.abc import Mapping
from itertools import pairwise, takewhile
from typing import Any, Final

from gpuruntime.api.http.problems import STATUSES
from gpuruntime.errors import ConfigurationError
from gpuruntime.gateway.errors import STATUSES as GATEWAY_STATUSES
from gpuruntime.models.kinds.reasons import ConditionType
from gpuruntime.settings.client import VARIABLES
from gpuruntime.settings.load import ADDRESSES, load
from gpuruntime.telemetry.catalogue import CATALOGUE
from gpuruntime.telemetry.metric import Kind as MetricKind
from tests.proofs.docs.command_lines import complaint_of, lenient, parsers
from tests.proofs.docs.facts import Fact, Kind
from tests.proofs.docs.vocabulary import (
    files,
    identifiers,
    parameters,
    routes,
    schemas,
    sessions,
    settings,
    words,
)

# Pages about code also name the classes, functions and members of these folders.
CODE: Final = {
    "docs/client.md": "gpuruntime/client",
    "docs/embedded-cluster.md": "gpuruntime/embedded",
    "docs/guarantees.md": "gpuruntime",
    "docs/serverless.md": "gpuruntime/framework",
}
# Names of Kubernetes, HTTP and other programs, and names that readers choose.
FOREIGN: Final = {
    *("Cookie", "Host", "If-None-Match", "If-Range", "Origin", "Range", "Set-Cookie"),
    *("Authorization", "Cache-Control", "Content-Security-Policy", "Expect", "Transfer-Encoding"),
    *("gateway.<domain>/units/<name>/ports/<port>/…",),
    *("WWW-Authenticate", "X-Update-Range", "?json", "sessionStorage"),
    *("FailedMount", "apply", "cluster-admin", "describe", "resourceNames"),
    *("event", "exception", "timestamp", "process_*", "process_resident_memory_bytes"),
    *(
        "local",
        "max_payload",
        "_gpuruntime",
        "fpath",
        "nsc",
        "nvidia",
        "pg_dump",
        "pod",
        "sed",
        "sslmode",
    ),
    *(
        "DIR/kubeconfig",
        "GPURUNTIME_API",
        "GPURUNTIME_PORT_HTTP",
        "POD",
        "ROLE",
        "greet",
        "host:port",
    ),
    # Programs of images, and of callers of a gateway.
    *("bash", "cat", "chmod", "git", "mv", "rm", "scp", "ssh", "tar", "wc"),
    *("cat >file", "sh -c 'cat >file; exit $?'", "gpuruntime-demo", "~/.ssh/config"),
    *("HS256", "kid", "gen", "command=", "openssl rand -base64 32"),
    *("-D", "-L", "-O", "-R", "COLORTERM", "LANG", "pip install gpuruntime[ssh]"),
    *("dd", "find", "grep", "readlink", "sftp-server", "ssh-keygen", "stat", "tr"),
    *("ssh.hostKeys", "ssh_host_key.pub", "~/.ssh/known_hosts"),
    # The gateway's own routes, which the API's document does not have.
    *("GET /units/{name}/exec", "GET /units/{name}/forward"),
    *("demo-cqluoz2t", "ssh.example.com", "ssh.example.com:2222"),
    *("crash=3: some words", "name=uid,…", "pod/container: reason: message"),
    "queued: insufficient_capacity: no ready stock of a10.1, 2 ahead of it",
}
# What `kubectl` does on pages, and the types of Kubernetes that it does it to beside ours.
VERBS: Final = {
    *("annotate", "apply", "create", "delete", "describe", "exec", "get", "label", "logs"),
    *("kustomize", "patch", "port-forward", "rollout", "scale", "wait"),
}
TYPES: Final = {
    *("configmap", "configmaps", "crd", "deployment", "deployments", "events", "lease", "leases"),
    *("namespace", "networkpolicies", "networkpolicy", "ns", "pod", "pods", "pvc", "secret"),
    *("service", "services", "statefulset", "generic", "status", "token", "undo"),
}
OPTIONS: Final = {"-n", "-l", "-o", "-k", "-f", "-p", "--raw", "--field-selector", "--audience"}
PLACEHOLDER: Final = re.compile(r"…|\*|<[a-z]+>|\{\w+\}|\$\w+")
CLOSED: Final = {
    Kind.VARIABLE: {*ADDRESSES, *VARIABLES.values()},
    Kind.CONDITION: {*map(str, ConditionType)},
}
SUFFIXES: Final = ("", "_count", "_sum", "_bucket")


def has(fact: Fact) -> bool:
    """Return whether the product has what the page names."""
    text = fact.text
    match fact.kind:
        case Kind.METRIC:
            return text in FOREIGN or _has_metric(text)
        case Kind.LABEL:
            key, _, value = text.partition("=")
            return _is_known(key) and (not value or _is_known(value))
        case Kind.VARIABLE | Kind.CONDITION:
            return text in CLOSED[fact.kind] | FOREIGN
        case Kind.ERROR:
            status, code = text.split()
            name, number = code.strip("`"), int(status)
            of_gateway = {str(each): found for each, found in GATEWAY_STATUSES.items()}
            return number in (STATUSES.get(name), of_gateway.get(name))
        case Kind.KUBECTL:
            return _is_of_kubectl(text.split()[1:])
        case Kind.TOOL:
            return not text.startswith("nox -s ") or text.split()[2] in sessions()
        case Kind.ROUTE:
            return text in FOREIGN or _has_route(text)
        case Kind.FLAG:
            return _has_flag(text)
        case Kind.MEMBER:
            name, value = re.split(r": |=", text, maxsplit=1)
            return _takes(name, value) or _is_code(name, fact.page)
        case Kind.MESSAGE:
            return text in FOREIGN or _has_message(text)
        case Kind.NAME:
            return _is_known(text) or _is_code(text, fact.page)


def _is_code(text: str, page: str) -> bool:
    return page in CODE and {*text.split(".")} <= identifiers(CODE[page])


def _is_known(text: str) -> bool:
    """Return whether it is a name, a file, a placeholder, or a path of names."""
    return (
        text in words()
        or text in FOREIGN
        or {text.strip("/"), text.replace(".", "/")} & files() != set()
        or PLACEHOLDER.fullmatch(text) is not None
        or ("/" in text and {*text.strip("/").split("/")} <= words())
    )


def _has_metric(text: str) -> bool:
    name, _, labels = text.removesuffix("}").partition("{")
    shown = {re.split("[=!]", label)[0].strip() for label in labels.split(",") if label}
    for metric in CATALOGUE:
        suffixes = SUFFIXES if metric.kind is MetricKind.HISTOGRAM else SUFFIXES[:1]
        series = {f"{metric.full_name}{suffix}" for suffix in suffixes}
        is_meant = metric.full_name.endswith(name) if name.startswith("_") else name in series
        if is_meant and shown <= {label.name for label in metric.labels}:
            return True
    return False


def _has_flag(text: str) -> bool:
    flag, *value = text.split()
    return any(
        flag in each._option_string_actions and not (value and complaint_of(each, text.split()))
        for each in parsers(lenient())
    )


def _has_route(text: str) -> bool:
    match = re.fullmatch(r"(?:([A-Z]+) |curl )?…?(?:https?://[^/]+)?([^?]*)(?:\?(.*))?", text)
    assert match, text
    method, path, query = match.groups()
    methods = {each for each, template in routes() if _is_end(path, template)}
    asked = {each.partition("=")[0] for each in (query or "").split("&")} - {""}
    is_path = method in methods if method and methods else bool(methods) or _is_known(path)
    return (is_path or path in {"", "/api/v1"}) and asked <= parameters()


def _is_end(path: str, template: str) -> bool:
    """Return whether the path is one of the template, or its end from a word of it on."""
    given, wanted = path.strip("/").split("/"), template.strip("/").split("/")
    end = wanted[-len(given) :]
    return (
        given[0] == end[0]
        and len(given) == len(end)
        and all(
            one == other or other.startswith("{") or PLACEHOLDER.fullmatch(one)
            for one, other in zip(given, end, strict=True)
        )
    )


def _is_of_kubectl(line: list[str]) -> bool:
    """Return whether verb, types, names, namespaces, labels and fields of the line exist."""
    line = list(takewhile(lambda word: word not in {">", "<<<", "--"}, line))
    given = {option: value for option, value in pairwise(line) if option in OPTIONS}
    verb, *plain = (each for each in line if each[0] != "-" and each not in given.values())
    types = [part for each in plain[:2] for part in re.split("[,/]", each)]
    label, _, value = given.get("-l", "").partition("=")
    named = [*types, given.get("-n", ""), label, value]
    named += re.findall(r"\.(\w+)", given.get("-o", "").partition("=")[2])
    return verb in VERBS and all(
        not each or each.isupper() or each in TYPES or PLACEHOLDER.search(each) or _is_known(each)
        for each in named
    )


def _takes(name: str, value: str) -> bool:
    """Return whether a setting or a field of this name takes the value."""
    keys = [key for key in settings() if key == name or key.endswith(f".{name}")]
    last = name.rpartition(".")[2]
    fields = [node["properties"][last] for node in schemas() if last in node.get("properties", {})]
    if not keys and not fields:
        return name in FOREIGN or (_is_known(name) and _is_known(value))
    choices = {each for field in fields for each in field.get("enum", ())}
    is_of_field = value in choices if choices else any(_fits(field, value) for field in fields)
    return is_of_field or any(_is_loaded(key, value) for key in keys)


def _is_loaded(key: str, value: str) -> bool:
    text = value
    for part in reversed(key.split(".")):
        text = f"{{{part}: {text}}}"
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        try:
            load(file.name, flags={}, environment={})
        except ConfigurationError:
            return False
    return True


def _fits(schema: Mapping[str, Any], value: str) -> bool:
    kinds = {"true": "boolean", "false": "boolean"}
    return schema.get("type") == kinds.get(value, "integer" if value.isdecimal() else "string")


def _has_message(text: str) -> bool:
    """Return whether a text or a name has these words, with anything for placeholders."""
    pieces = [each for each in PLACEHOLDER.split(text) if each]
    pattern = re.compile(".*".join(map(re.escape, pieces)))
    return not pieces or any(pattern.search(each) for each in words() if pieces[0] in each)
