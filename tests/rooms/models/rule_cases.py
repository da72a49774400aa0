"""Writes that our definitions allow or deny: one table for the twins and for servers.

`RULE_CASES` are within the bounds, so that only the rules decide; servers are given all `CASES`.
Kubernetes adds a cause without a field to some rejections, which means that it did not evaluate
the rules.
"""

from typing import Any, Final, TypeAlias

import attrs

Document: TypeAlias = dict[str, Any]

DERIVED: Final = f"op-{'0123456789abcdef' * 3:.40}"
OWNER: Final = {"name": "template", "uid": "5b9c"}
OTHER_OWNER: Final = {"name": "template", "uid": "77aa"}

LONG_NAMES: Final = tuple(f"{'A' * 250}{number:03}" for number in range(128))

PRODUCT: Final = "spec.gpuProduct"
PORTS: Final = "spec.template.ports"
ENVS: Final = "spec.template.envs"
GENERATION: Final = "spec.access.generation"
SSH_KEY: Final = "spec.access.sshKeys[0]"
PRIMARY: Final = "spec.access.primaryPort"
MOUNT_PATH: Final = "spec.storageMounts[0].mountPath"
FILES: Final = "spec.template.files"
FILE_PATH: Final = "spec.template.files[0].path"
OWNED: Final = "spec.serverless.workerOf"
SOCKET: Final = "spec.serverless.framework.socketPath"
DEFAULT_FOLDER: Final = "/tmp/serverless-framework"


@attrs.frozen(kw_only=True, slots=True)
class RuleCase:
    """A create, or an update of `old`; `denied` is the field that the rejection names."""

    title: str
    document: Document
    old: Document | None = None
    denied: str = ""

    def __str__(self) -> str:
        return f"{self.document['kind']}-{self.title}".replace(" ", "-")


def unit(name: str = "unit", **spec: Any) -> Document:
    return _document("GPUUnit", name, {"specName": "g1.1"} | spec)


def pool(name: str = "pool", **spec: Any) -> Document:
    return _document("StockPool", name, {"specName": "g1.1", "replicas": 2} | spec)


def storage(name: str = "storage", **spec: Any) -> Document:
    return _document("GPUStorage", name, {"size": "10Gi"} | spec)


def prepared(**prepare: Any) -> Document:
    return storage(prepare=prepare)


def _document(kind: str, name: str, spec: Document) -> Document:
    return {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def created(title: str, document: Document, *, denied: str = "") -> RuleCase:
    return RuleCase(title=title, document=document, denied=denied)


def changed(title: str, old: Document, new: Document, *, denied: str = "") -> RuleCase:
    return RuleCase(title=title, document=new, old=old, denied=denied)


def mounting(*paths: str, **spec: Any) -> Document:
    mounts = [{"name": f"storage-{index}", "mountPath": path} for index, path in enumerate(paths)]
    return unit(storageMounts=mounts, **spec)


def reading(*paths: str, **spec: Any) -> Document:
    """Return a unit with values of secrets as files at these paths."""
    return unit(template={"files": [file(path) for path in paths]}, **spec)


def file(path: str, key: str = "token") -> Document:
    return {"path": path, "secret": {"name": "hub", "key": key}}


def with_secret(**env: Any) -> Document:
    return unit(
        template={"envs": [{"name": "A", "secret": {"name": "hub", "key": "token"}, **env}]}
    )


def serving(*ports: Any, **access: Any) -> Document:
    return unit(template={"ports": list(ports)}, access=access)


def accessed(generation: int, **access: Any) -> Document:
    return unit(access={"generation": generation} | access)


def with_keys(*keys: str) -> Document:
    return unit(access={"sshKeys": list(keys)})


def with_envs(*names: str) -> Document:
    return unit(template={"envs": [{"name": name, "value": "1"} for name in names]})


def function(**serverless: Any) -> Document:
    return unit(serverless={"requestID": "fn"} | serverless)


def listening(socket: str) -> Document:
    return function(framework={"socketPath": socket})


def sharing(folder: str, socket: str = "") -> Document:
    """Return a function with a storage; without a socket of its own, it has the default socket."""
    framework = {"framework": {"socketPath": socket}} if socket else {}
    return mounting(folder, serverless={"requestID": "fn", "maxWorkers": 1, **framework})


def port(name: str, number: int, **more: Any) -> Document:
    return {"name": name, "port": number} | more


NAMES: Final = (
    created("a name of one letter", unit("a")),
    created("a name that begins with a digit", unit("1a")),
    created("a name of 63 characters", unit("a" * 63)),
    created("a name of 64 characters", unit("a" * 64), denied="metadata.name"),
    created("a name with a dot", unit("a.b"), denied="metadata.name"),
    created("a name that only begins like a derived one", unit("opera")),
    created("a name that takes the reserved prefix", unit("op-mine"), denied="metadata.name"),
    created("a derived name", unit(DERIVED)),
    created("a derived pool's unit", unit(f"{DERIVED}-17")),
    created("a derived function's worker", unit(f"{DERIVED}-w-3")),
    created("a digest cut short", unit(DERIVED[:-1]), denied="metadata.name"),
    created("a digest too long", unit(f"{DERIVED}0"), denied="metadata.name"),
    created("an ordinal of zero", unit(f"{DERIVED}-0"), denied="metadata.name"),
    created("a digest with a word behind", unit(f"{DERIVED}-mine"), denied="metadata.name"),
    created("a name of 52 characters", pool("a" * 52)),
    created("a name of 53 characters", pool("a" * 53), denied="metadata.name"),
    created("a name with a dot", pool("a.b"), denied="metadata.name"),
    created("a name that takes the reserved prefix", pool("op-mine"), denied="metadata.name"),
    created("a derived name", pool(DERIVED)),
    created("a derived name with an ordinal", pool(f"{DERIVED}-1"), denied="metadata.name"),
)

ENVELOPE: Final = tuple(
    case
    for make in (unit, pool)
    for case in (
        changed("the same spec again", make(cpu="1", gpu=1), make(cpu="1", gpu=1)),
        changed("another image", make(image="a:1"), make(image="a:2")),
        changed("another specName", make(), make(specName="g1.2"), denied="spec.specName"),
        changed("another gpu", make(gpu=1), make(gpu=2), denied="spec.gpu"),
        changed("a gpu where none was", make(), make(gpu=1), denied="spec.gpu"),
        changed("a gpu taken away", make(gpu=1), make(), denied="spec.gpu"),
        changed("no gpu, now in words", make(), make(gpu=0)),
        changed("another product", make(gpuProduct="A"), make(gpuProduct="B"), denied=PRODUCT),
        changed("a product where none was", make(), make(gpuProduct="A"), denied=PRODUCT),
        changed("a product taken away", make(gpuProduct="A"), make(), denied=PRODUCT),
        changed("no product, now in words", make(), make(gpuProduct="")),
        changed("another cpu", make(cpu="1"), make(cpu="2"), denied="spec.cpu"),
        changed(
            "the same cpu in other words", make(cpu="1"), make(cpu="1000m"), denied="spec.cpu"
        ),
        changed("a cpu where the default was", make(), make(cpu="1"), denied="spec.cpu"),
        changed("a cpu where an empty one was", make(cpu=""), make(cpu="1"), denied="spec.cpu"),
        changed("a cpu taken away", make(cpu="1"), make(), denied="spec.cpu"),
        changed("no cpu, now in words", make(), make(cpu="")),
        changed("a cpu spoilt", make(cpu="1"), make(cpu="one"), denied="spec.cpu"),
        changed("a cpu mended", make(cpu="one"), make(cpu="1")),
        changed("a cpu mended by the default", make(cpu="one"), make()),
        changed("a cpu that stays bad", make(cpu="one"), make(cpu="two")),
        changed("a cpu of zero mended", make(cpu="0"), make(cpu="1")),
        changed("a cpu below zero mended", make(cpu="-1"), make(cpu="1")),
        changed("a memory mended", make(memory="16 Gi"), make(memory="16Gi")),
        changed("a memory past all bounds mended", make(memory="1Ei"), make(memory="1Gi")),
        changed("a huge memory", make(memory="1E"), make(memory="1Gi"), denied="spec.memory"),
        changed("a tiny memory", make(memory="1n"), make(memory="1Gi"), denied="spec.memory"),
        changed("another memory", make(memory="1Gi"), make(memory="2Gi"), denied="spec.memory"),
    )
)

TEMPLATES: Final = (
    created("ports that differ", serving(port("http", 80), port("admin", 81))),
    created("a name twice", serving(port("http", 80), port("http", 81)), denied=PORTS),
    created("a port twice", serving(port("a", 80), port("b", 80)), denied=PORTS),
    created("a port of two protocols", serving(port("a", 80), port("b", 80, protocol="UDP"))),
    created("envs that differ", with_envs("A", "B")),
    created("an env twice", with_envs("A", "B", "A"), denied="spec.template.envs"),
    created("an env of the platform", with_envs("A", "GPU_COUNT"), denied=f"{ENVS}[1].name"),
    created("an env of the platform in small letters", with_envs("gpu_count")),
    created("a primary port", serving(port("http", 80), primaryPort="http")),
    created("no primary port", serving(port("http", 80), scheme="https")),
    created("an empty primary port", serving(port("http", 80), primaryPort="")),
    created("a primary port before its ports", serving(primaryPort="http")),
    created("a primary port without a template", unit(access={"primaryPort": "http"})),
    created(
        "a primary port that is none", serving(port("a", 80), primaryPort="b"), denied=PRIMARY
    ),
)

ACCESS: Final = (
    created("a first generation", unit(access={"generation": 3})),
    changed("a generation that rises", accessed(3), accessed(4)),
    changed("a first generation later", unit(), accessed(1)),
    changed("a first generation later that jumps", unit(), accessed(9), denied=GENERATION),
    changed("a generation that jumps", accessed(3), accessed(5), denied=GENERATION),
    changed("the same generation", accessed(3), accessed(3, wake=True)),
    changed("a generation that falls", accessed(3), accessed(2), denied=GENERATION),
    changed("a generation left out", accessed(3), unit(access={}), denied=GENERATION),
    changed("an access left out", accessed(3), unit(), denied=GENERATION),
    changed("an access without generations left out", unit(access={"wake": True}), unit()),
)

STORAGE: Final = (
    created("two mounts", mounting("/data", "/models")),
    created("a hidden folder", mounting("/root/.cache")),
    created("a folder of three dots", mounting("/.../..a/a..")),
    created("a relative path", mounting("data"), denied=MOUNT_PATH),
    created("an empty path", mounting(""), denied=MOUNT_PATH),
    created("the root", mounting("/"), denied=MOUNT_PATH),
    created("a slash at the end", mounting("/data/"), denied=MOUNT_PATH),
    created("two slashes", mounting("/data//a"), denied=MOUNT_PATH),
    created("a step up", mounting("/data/../etc"), denied=MOUNT_PATH),
    created("a step nowhere", mounting("/data/."), denied=MOUNT_PATH),
    created("a colon", mounting("/da:ta"), denied=MOUNT_PATH),
    created("the shared memory", mounting("/dev/shm"), denied=MOUNT_PATH),
    created("the processes", mounting("/proc"), denied=MOUNT_PATH),
    created("a name that begins like a kernel path", mounting("/device", "/data/dev")),
    created("a path twice", mounting("/data", "/data"), denied="spec.storageMounts"),
    created("a path below another", mounting("/data/a", "/data"), denied="spec.storageMounts"),
    created("a path that begins like another", mounting("/data", "/data-2")),
    created(
        "a storage twice",
        unit(storageMounts=[{"name": "a", "mountPath": "/a"}, {"name": "a", "mountPath": "/b"}]),
        denied="spec.storageMounts",
    ),
)

SECRETS: Final = (
    created("a variable of a secret", with_secret()),
    created("a variable of a secret and an empty value", with_secret(value="")),
    created(
        "a variable with two values", with_secret(value="x"), denied="spec.template.envs[0].value"
    ),
    created("files beside each other", reading("/etc/tls/a", "/etc/tls/b", "/etc/tls-2")),
    created("a file at the root", reading("/token")),
    created("a relative file", reading("token"), denied=FILE_PATH),
    created("a file above", reading("/etc/../token"), denied=FILE_PATH),
    created("a folder instead of a file", reading("/etc/"), denied=FILE_PATH),
    created("a file of the processes", reading("/proc/1"), denied=FILE_PATH),
    created("a file in the shared memory", reading("/dev/shm/token"), denied=FILE_PATH),
    created("a file twice", reading("/a", "/a"), denied=FILES),
    created("a file below a file", reading("/a", "/a/b"), denied=FILES),
    created(
        "a file beside a storage",
        reading("/data-2/a", storageMounts=[{"name": "a", "mountPath": "/data"}]),
    ),
    created(
        "a file in a storage",
        reading("/data/a", storageMounts=[{"name": "a", "mountPath": "/data"}]),
        denied=FILES,
    ),
    created(
        "a file in place of a storage",
        reading("/data", storageMounts=[{"name": "a", "mountPath": "/data"}]),
        denied=FILES,
    ),
    created(
        "a storage below a file",
        reading("/data", storageMounts=[{"name": "a", "mountPath": "/data/a"}]),
        denied=FILES,
    ),
    created("a file beside the socket", reading("/tmp/token", serverless={"requestID": "fn"})),
    created(
        "a file in the socket's folder",
        reading(f"{DEFAULT_FOLDER}/token", serverless={"requestID": "fn"}),
        denied=FILES,
    ),
    created(
        "a file in place of the socket's folder",
        reading(DEFAULT_FOLDER, serverless={"requestID": "fn"}),
        denied=FILES,
    ),
    created("a pool with plain variables", pool(template={"envs": [{"name": "A", "value": "1"}]})),
    created(
        "a pool with a variable of a secret",
        pool(template=with_secret()["spec"]["template"]),
        denied="spec.template",
    ),
    created("a pool with a file", pool(template={"files": [file("/a")]}), denied="spec.template"),
)

SIZE: Final = "spec.size"
PREPARE: Final = "spec.prepare"
STORAGES: Final = (
    created("a storage of 63 characters", storage("a" * 63)),
    created("a storage with a dot", storage("a.b"), denied="metadata.name"),
    created("a storage that takes the reserved prefix", storage("op-a"), denied="metadata.name"),
    created("a derived storage", storage(DERIVED)),
    created("a size that is none", storage(size="much")),
    changed("the same size", storage(), storage()),
    changed("a size that grows", storage(), storage(size="11Gi")),
    changed("the same size in other words", storage(), storage(size="10240Mi")),
    changed("a size that shrinks", storage(), storage(size="9Gi"), denied=SIZE),
    changed("a size that shrinks to nothing", storage(), storage(size="0"), denied=SIZE),
    changed("a size spoilt", storage(), storage(size="much"), denied=SIZE),
    changed("a size past all bounds", storage(), storage(size="1Ei"), denied=SIZE),
    changed("a size mended", storage(size="much"), storage(size="1Gi")),
    changed("a size of zero mended", storage(size="0"), storage(size="1Gi")),
    changed("a size past all bounds mended", storage(size="2Ei"), storage(size="1Gi")),
    changed(
        "another class",
        storage(storageClassName="fast"),
        storage(storageClassName="slow"),
        denied="spec.storageClassName",
    ),
    changed(
        "a class where the default was",
        storage(),
        storage(storageClassName="slow"),
        denied="spec.storageClassName",
    ),
    changed("no class, now in words", storage(), storage(storageClassName="")),
    changed("an accessor", storage(), storage(accessor={"enabled": True})),
    created("a command of an image", prepared(fromImage="a:1", command=["fill"])),
    created("args of an image", prepared(fromImage="a:1", args=["fill"])),
    created("an image alone", prepared(fromImage="a:1"), denied=f"{PREPARE}.fromImage"),
    created("a copy", prepared(fromStorageName="other")),
    created("nothing to prepare from", prepared(), denied=PREPARE),
    created(
        "two sources",
        prepared(fromImage="a:1", fromStorageName="other", command=["fill"]),
        denied=PREPARE,
    ),
    created(
        "a copy with a command",
        prepared(fromStorageName="other", command=["fill"]),
        denied=f"{PREPARE}.fromStorageName",
    ),
    created(
        "a copy with args",
        prepared(fromStorageName="other", args=["fill"]),
        denied=f"{PREPARE}.fromStorageName",
    ),
    created(
        "a copy of itself",
        prepared(fromStorageName="storage"),
        denied=f"{PREPARE}.fromStorageName",
    ),
)

FUNCTIONS: Final = (
    created("a function with its defaults", function()),
    created("as many workers as there may be", function(minAvailableCount=3, maxWorkers=3)),
    created(
        "more workers than there may be",
        function(minAvailableCount=3, maxWorkers=2),
        denied="spec.serverless.minAvailableCount",
    ),
    created(
        "more workers than the default",
        function(minAvailableCount=11),
        denied="spec.serverless.minAvailableCount",
    ),
    created(
        "one worker with a storage",
        mounting("/data", serverless={"requestID": "fn", "maxWorkers": 1}),
    ),
    created(
        "ten workers with a storage",
        mounting("/data", serverless={"requestID": "fn"}),
        denied="spec.serverless.maxWorkers",
    ),
    created("a socket beside a storage", sharing("/data", "/run/a/s")),
    created("a socket in a folder that begins like a storage's", sharing("/data", "/data-2/s")),
    created("a socket in a storage", sharing("/data", "/data/s"), denied=SOCKET),
    created("a socket below a storage", sharing("/data", "/data/a/s"), denied=SOCKET),
    created("a storage in the folder of the socket", sharing("/run/a", "/run/s"), denied=SOCKET),
    created("a storage where the socket is", sharing("/run/s", "/run/s"), denied=SOCKET),
    created("a storage in the socket's default folder", sharing(DEFAULT_FOLDER), denied=SOCKET),
    created("a storage above the socket's default folder", sharing("/tmp"), denied=SOCKET),
    created("a socket without a storage", function(framework={"socketPath": "/data/s"})),
    created("a socket in shared memory", listening("/dev/shm/s"), denied=SOCKET),
    created("a socket among the processes", listening("/proc/s"), denied=SOCKET),
    created("a socket among the devices", listening("/sys/fs/s"), denied=SOCKET),
    created("a socket in a folder that begins like the kernel's", listening("/devices/s")),
    changed(
        "a function that is given a storage around its socket",
        function(maxWorkers=1),
        sharing("/tmp"),
        denied=SOCKET,
    ),
    created("a worker", function(workerOf=OWNER)),
    changed(
        "a worker's new limit", function(workerOf=OWNER), function(workerOf=OWNER, maxAttempts=2)
    ),
    changed("a unit that becomes a function", unit(), function()),
    changed("a function that becomes a plain unit", function(), unit()),
    changed(
        "a function that becomes a worker", function(), function(workerOf=OWNER), denied=OWNED
    ),
    changed("a unit that becomes a worker", unit(), function(workerOf=OWNER), denied=OWNED),
    changed("a worker let go", function(workerOf=OWNER), function(), denied=OWNED),
    changed("a worker made a plain unit", function(workerOf=OWNER), unit(), denied=OWNED),
    changed(
        "a worker handed on",
        function(workerOf=OWNER),
        function(workerOf=OTHER_OWNER),
        denied=OWNED,
    ),
)

BOUNDS: Final = (
    created("a specName of 63 characters", unit(specName="g" * 63)),
    created("a specName of 64 characters", unit(specName="g" * 64), denied="spec.specName"),
    created("a specName in capitals", unit(specName="G1"), denied="spec.specName"),
    created("a specName that ends with a dot", unit(specName="g1."), denied="spec.specName"),
    created("a specName with a line's end", unit(specName="g1\n"), denied="spec.specName"),
    created("an image with a blank", unit(image="a b"), denied="spec.image"),
    created("a bad quantity", unit(cpu="not-a-quantity", memory="-1")),
    created("an endless quantity", unit(cpu="1" * 65), denied="spec.cpu"),
    created("a gpu below zero", unit(gpu=-1), denied="spec.gpu"),
    created("a product that is no label", unit(gpuProduct="a/b"), denied=PRODUCT),
    created("the lowest and the highest port", serving(port("a", 1), port("b", 65535))),
    created("port zero", serving(port("a", 0)), denied=f"{PORTS}[0].port"),
    created("a port too high", serving(port("a", 65536)), denied=f"{PORTS}[0].port"),
    created("a port of digits", serving(port("80", 80)), denied=f"{PORTS}[0].name"),
    created("a port of digits and a letter", serving(port("8-0-a-1", 80))),
    created("a port with two hyphens", serving(port("a--b", 80)), denied=f"{PORTS}[0].name"),
    created("a port in capitals", serving(port("HTTP", 80)), denied=f"{PORTS}[0].name"),
    created(
        "an unknown protocol",
        serving(port("a", 80, protocol="ICMP")),
        denied=f"{PORTS}[0].protocol",
    ),
    created("33 ports", serving(*(port(f"p{n}", n) for n in range(1, 34))), denied=PORTS),
    created("as many envs as there may be, with the longest names", with_envs(*LONG_NAMES)),
    created("one env too many", with_envs(*LONG_NAMES, "A"), denied=ENVS),
    created("an env that begins with a digit", with_envs("1A"), denied=f"{ENVS}[0].name"),
    created(
        "a command with a NUL",
        unit(template={"command": ["sh", "a\0b"]}),
        denied="spec.template.command[1]",
    ),
    created("a mount path with a NUL", mounting("/a\0b"), denied=MOUNT_PATH),
    created("an argument of many lines", unit(template={"args": ["é\n\t\x7f\n"]})),
    created("a generation below zero", accessed(-1), denied=GENERATION),
    created("a public key", with_keys("ssh-ed25519 AAAAC3Nza me@home (laptop)")),
    created("a public key of hardware", with_keys("sk-ssh-ed25519@openssh.com AAAAGnNr")),
    created("a key with options", with_keys('command="sh" ssh-rsa AAAA'), denied=SSH_KEY),
    created("a DSA key", with_keys("ssh-dss AAAAB3Nz"), denied=SSH_KEY),
    created("a certificate", with_keys("ssh-rsa-cert-v01@openssh.com AAAAHHNz"), denied=SSH_KEY),
    created("two lines of keys", with_keys("ssh-rsa AAAA\nssh-rsa AAAA"), denied=SSH_KEY),
    created("21 keys", with_keys(*["ssh-rsa AAAA"] * 21), denied="spec.access.sshKeys"),
    created("a scheme in capitals", serving(scheme="HTTP"), denied="spec.access.scheme"),
    created("an unknown readiness", serving(readiness="http"), denied="spec.access.readiness"),
    created(
        "a storage with a dot",
        unit(storageMounts=[{"name": "a.b", "mountPath": "/a"}]),
        denied="spec.storageMounts[0].name",
    ),
    created("a class of several labels", storage(storageClassName="fast.example-1.com")),
    created(
        "a class with an empty label",
        storage(storageClassName="a..b"),
        denied="spec.storageClassName",
    ),
    created(
        "a class with a label that ends with a hyphen",
        storage(storageClassName="a-.b"),
        denied="spec.storageClassName",
    ),
    created("9 pull secrets", unit(imagePullSecrets=["a"] * 9), denied="spec.imagePullSecrets"),
    created(
        "a pull secret with a dot",
        unit(imagePullSecrets=["a.b"]),
        denied="spec.imagePullSecrets[0]",
    ),
    created("32 files", reading(*(f"/{'a' * 500}/{n}" for n in range(32)))),
    created("33 files", reading(*(f"/{n}" for n in range(33))), denied=FILES),
    created(
        "a file of a key with two dots in front",
        unit(template={"files": [file("/a", "..key")]}),
        denied="spec.template.files[0].secret.key",
    ),
    created("17 mounts", mounting(*(f"/{n}" for n in range(17))), denied="spec.storageMounts"),
    created(
        "a requestID in capitals", function(requestID="Fn"), denied="spec.serverless.requestID"
    ),
    created("no workers", function(maxWorkers=0), denied="spec.serverless.maxWorkers"),
    created("1000 workers", function(maxWorkers=1000)),
    created("1001 workers", function(maxWorkers=1001), denied="spec.serverless.maxWorkers"),
    created("a socket that is no path", function(framework={"socketPath": "s"}), denied=SOCKET),
    created("a socket of no name", function(framework={"socketPath": ""}), denied=SOCKET),
    created(
        "a socket with a NUL", function(framework={"socketPath": "/run/a\0/s"}), denied=SOCKET
    ),
    created("a socket of two lines", listening("/run/a\n/s"), denied=SOCKET),
    created("a socket beyond ASCII", listening("/run/ä/s"), denied=SOCKET),
    created("a socket with spaces, dots and signs", listening("/run/a b/..c~-+.s")),
    created(
        "a socket without a folder",
        function(framework={"socketPath": "/framework.sock"}),
        denied="spec.serverless.framework.socketPath",
    ),
    created(
        "a relative URL",
        function(framework={"invokePath": "invoke"}),
        denied="spec.serverless.framework.invokePath",
    ),
    created("an empty pool", pool(replicas=0)),
    created("a pool below zero", pool(replicas=-1), denied="spec.replicas"),
    created("a pool of 10,000", pool(replicas=10_000)),
    created("a pool of 10,001", pool(replicas=10_001), denied="spec.replicas"),
    created("a pool that never refills", pool(refill="Never")),
    created("an unknown refill", pool(refill="Sometimes"), denied="spec.refill"),
)

RULE_CASES: Final = (
    *NAMES,
    *ENVELOPE,
    *TEMPLATES,
    *ACCESS,
    *STORAGE,
    *SECRETS,
    *STORAGES,
    *FUNCTIONS,
)
CASES: Final = (*RULE_CASES, *BOUNDS)
