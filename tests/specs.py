"""Strategies of Hypothesis for valid units, storages and configurations.

Every optional member is sometimes absent. Lists are short where a longer one proves no more.
"""

from pathlib import PurePosixPath
from typing import Any, TypeVar

from hypothesis import assume
from hypothesis import strategies as st

from gpuruntime.models.definitions.rules import PLATFORM_ENV
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.functions import Framework, Serverless, WorkerOf
from gpuruntime.models.kinds.secrets import SecretKey
from gpuruntime.models.kinds.storages import Accessor, GPUStorage, GPUStorageSpec, Prepare
from gpuruntime.models.kinds.templates import EnvVar, Port, PortProtocol, SecretFile, Template
from gpuruntime.models.kinds.units import Access, GPUUnit, GPUUnitSpec, Readiness, StorageMount
from gpuruntime.models.kubernetes.metadata import ObjectMeta
from gpuruntime.reconcilers.options import (
    HelperOptions,
    NatsPeer,
    NetworkOptions,
    PodDefaults,
    SidecarOptions,
    UnitOptions,
)
from gpuruntime.reconcilers.storage.children import Placing
from gpuruntime.reconcilers.unit.pod_template import Placement
from gpuruntime.settings.schema import PRIVATE_NETWORKS
from tests.options import configured

T = TypeVar("T")

# A test that creates Pods from these units has to create the class first.
RUNTIME_CLASS = "sandboxed"
UID = "6d1d2b1e-6f0a-4c7e-9d6e-0f5a2b3c4d5e"
LONGEST = 63

_DIGITS = "0123456789"
_LOWER = "abcdefghijklmnopqrstuvwxyz"
_PRINTABLE = st.characters(min_codepoint=0x21, max_codepoint=0x7E)


def texts(ends: str, middle: str, longest: int = LONGEST) -> st.SearchStrategy[str]:
    """Draw texts with `ends` as first and last characters, often of the longest length."""
    inner = st.text(middle, max_size=12) | st.text(
        middle, min_size=longest - 2, max_size=longest - 2
    )
    end = st.sampled_from(ends)
    return end | st.builds(lambda first, rest, last: first + rest + last, end, inner, end)


names = texts(_LOWER + _DIGITS, _LOWER + _DIGITS + "-").filter(
    lambda name: not name.startswith("op-")
)
label_values = texts(_LOWER + "AZ" + _DIGITS, _LOWER + "AZ" + _DIGITS + "-_.")
spec_names = texts(_LOWER + _DIGITS, _LOWER + _DIGITS + "-.")
label_keys = st.sampled_from(["zone", "example.org/disk", "A_b.c-d", "9"])
# Everything that JSON and a process accept: no lone surrogate and no NUL.
words = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20
) | st.sampled_from(["$(SPEC_NAME)", "$$(X)", "-c", "x" * 2000])
images = st.sampled_from(
    ["python:3.12", "registry.example.org:5000/a/b@sha256:" + "0" * 64]
) | st.text(_PRINTABLE, min_size=1, max_size=30)
quantities = st.sampled_from(
    ["1", "3", "+2", "0.5", "500m", "100u", "1n", "0.0000000001", "1.5", "1e3", "1E2"]
) | st.sampled_from(["1k", "123456789", "7Mi", "0.1Ki", "1.5Gi", "2Gi", "1Ti"])
ports = st.integers(1, 65_535)


def optional(strategy: st.SearchStrategy[T], absent: T) -> st.SearchStrategy[T]:
    return st.just(absent) | strategy


def several(
    strategy: st.SearchStrategy[T], *, most: int = 3, unique_by: Any = None
) -> st.SearchStrategy[tuple[T, ...]]:
    return st.lists(strategy, max_size=most, unique_by=unique_by).map(tuple)


env_names = texts(_LOWER + "AZ_", _LOWER + "AZ_.-" + _DIGITS, longest=253)
free_env_names = env_names.filter(lambda name: name not in PLATFORM_ENV)
data_keys = texts(_LOWER + "AZ_-" + _DIGITS, _LOWER + "AZ_.-" + _DIGITS, longest=253)
secret_keys = st.builds(SecretKey, name=names, key=data_keys)
envs = several(
    st.builds(EnvVar, name=free_env_names, value=words)
    | st.builds(EnvVar, name=free_env_names, secret=secret_keys),
    unique_by=lambda env: env.name,
)
port_names = st.from_regex(r"([0-9]{1,2}-)?[0-9]{0,2}[a-z](-?[a-z0-9]){0,4}", fullmatch=True)
port_lists = several(
    st.builds(Port, name=port_names, port=ports, protocol=st.sampled_from(PortProtocol)),
    unique_by=(lambda port: port.name, lambda port: (port.port, port.protocol)),
)
segments = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0/:"), min_size=1, max_size=12
).filter(lambda text: text not in (".", "..", "dev", "proc", "sys"))
mount_paths = st.lists(segments, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))


@st.composite
def mounts(draw: st.DrawFn) -> tuple[StorageMount, ...]:
    """Draw mounts below different root folders, so that none is below another."""
    storages = draw(st.lists(names, max_size=3, unique=True))
    return tuple(
        StorageMount(
            name=name, mountPath=f"/{index}{draw(mount_paths)}", readOnly=draw(st.booleans())
        )
        for index, name in enumerate(storages)
    )


@st.composite
def secret_files(draw: st.DrawFn) -> tuple[SecretFile, ...]:
    """Draw files below root folders of their own, apart from storages and sockets."""
    keys = draw(several(secret_keys))
    return tuple(
        SecretFile(path=f"/9{index}{draw(mount_paths)}", secret=key)
        for index, key in enumerate(keys)
    )


templates = st.builds(
    Template,
    command=several(words),
    args=several(words),
    envs=envs,
    ports=port_lists,
    files=secret_files(),
)
# Paths in, below and beside the folders of storages, whose names begin with a digit here.
socket_paths = st.builds(
    lambda folder, name: f"/{folder}/{name}",
    st.sampled_from("012s") | st.text(_LOWER, min_size=4, max_size=40),
    st.text(_LOWER + ".", min_size=1, max_size=60).filter(lambda name: name not in (".", "..")),
) | st.just("/s/" + "a" * 104)
functions = st.builds(
    Serverless,
    requestID=names,
    maxWorkers=st.just(1),
    concurrency=st.integers(1, 1000),
    timeoutSeconds=st.integers(1, 86_400),
    framework=st.builds(Framework, socketPath=socket_paths),
    workerOf=st.builds(WorkerOf, name=names, uid=st.just(UID)),
)


def _are_apart(mounts: tuple[StorageMount, ...], function: Serverless | None) -> bool:
    """Return whether the folder of the socket overlaps no folder of a storage."""
    folder = PurePosixPath(function.framework.socketPath if function else "/s/s").parent
    paths = [PurePosixPath(mount.mountPath) for mount in mounts]
    return not any(path.is_relative_to(folder) or folder.is_relative_to(path) for path in paths)


@st.composite
def units(draw: st.DrawFn, namespace: str = "runtime-instance") -> GPUUnit:
    template = draw(templates)
    named = [port.name for port in template.ports]
    mounted, function = draw(mounts()), draw(optional(functions, None))
    assume(_are_apart(mounted, function))
    spec = GPUUnitSpec(
        specName=draw(spec_names),
        image=draw(optional(images, "")),
        cpu=draw(optional(quantities, "")),
        memory=draw(optional(quantities, "")),
        gpu=draw(st.integers(0, 10_000)),
        gpuProduct=draw(optional(label_values, "")),
        template=template,
        access=Access(
            primaryPort=draw(st.sampled_from(["", *named])),
            scheme=draw(st.sampled_from(["http", "https", "grpc+tls"])),
            readiness=draw(st.sampled_from(Readiness)),
        ),
        storageMounts=mounted,
        imagePullSecrets=draw(several(names)),
        serverless=function,
        suspended=draw(st.booleans()),
    )
    return GPUUnit(metadata=_metadata(draw, namespace), spec=spec)


@st.composite
def storages(draw: st.DrawFn, namespace: str = "runtime-instance") -> GPUStorage:
    metadata = _metadata(draw, namespace)
    spec = GPUStorageSpec(
        size=draw(quantities),
        storageClassName=draw(optional(names, "")),
        prepare=draw(optional(_prepares(metadata.name), None)),
        accessor=Accessor(enabled=draw(st.booleans()), writable=draw(st.booleans())),
    )
    return GPUStorage(metadata=metadata, spec=spec)


def _prepares(own_name: str) -> st.SearchStrategy[Prepare]:
    copies = names.filter(lambda name: name != own_name)
    said = st.tuples(several(words), several(words)).filter(any)
    filled = st.tuples(images, said).map(
        lambda drawn: Prepare(fromImage=drawn[0], command=drawn[1][0], args=drawn[1][1])
    )
    return filled | copies.map(lambda name: Prepare(fromStorageName=name))


def _metadata(draw: st.DrawFn, namespace: str) -> ObjectMeta:
    tenant = draw(optional(label_values, ""))
    given = {labels.TENANT: tenant} if tenant else {}
    return ObjectMeta(name=draw(names), namespace=namespace, uid=UID, labels=given)


tolerations = st.sampled_from(
    [
        {"operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "x"},
        {"key": "away", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
    ]
)
pod_defaults = st.builds(
    PodDefaults,
    cpu=quantities,
    memory=quantities,
    ephemeral_storage=quantities,
    ephemeral_storage_request=quantities,
    image_pull_secrets=several(names, most=2, unique_by=lambda name: name),
    tolerations=several(tolerations, most=2),
    node_selector=st.dictionaries(label_keys, optional(label_values, ""), max_size=2),
    runtime_class=st.sampled_from(["", RUNTIME_CLASS]),
)
networks = st.builds(
    NetworkOptions,
    blocked_cidrs=several(st.sampled_from([*PRIVATE_NETWORKS, "::/0"]), unique_by=str).filter(
        bool
    ),
    name_servers=several(st.sampled_from(["169.254.20.10/32", "fd00::a/128"]), unique_by=str),
    allows_all=st.booleans(),
    nats=st.sampled_from(
        [
            None,
            configured(NatsPeer, cidr="10.0.0.7/32"),
            configured(NatsPeer, cidr="fd00::7/128"),
            configured(NatsPeer, namespace_labels={"team": "queue"}, pod_labels={"app": "nats"}),
        ]
    ),
)


sidecars = st.builds(
    configured,
    st.just(SidecarOptions),
    image=images,
    cpu=st.sampled_from(["100m", "1"]),
    cpu_limit=st.sampled_from(["1", "1.5"]),
    memory=quantities,
    drain_seconds=st.floats(0.001, 600.0),
    broker_url=st.just("nats://nats:4222"),
)


def options(*, is_restricted: bool) -> st.SearchStrategy[UnitOptions]:
    return st.builds(
        configured,
        st.just(UnitOptions),
        gpu_resource=st.sampled_from(["nvidia.com/gpu", "amd.com/gpu"]),
        is_restricted=st.just(is_restricted),
        pod_defaults=pod_defaults,
        helpers=st.builds(configured, st.just(HelperOptions), cpu=quantities, memory=quantities),
        sidecar=sidecars,
        network=networks,
    )


nodes = texts(_LOWER + _DIGITS, _LOWER + _DIGITS + "-") | st.just("a" * 60 + "." + "b" * 60)
placements = st.builds(
    Placement,
    priority_class=st.sampled_from(["", "gpuruntime-stock", "gpuruntime-instance"]),
    preferred_node=optional(nodes, ""),
    ends_at_once=st.booleans(),
)
placings = st.builds(Placing, node=optional(nodes, ""), is_off=st.booleans())
