"""The CEL rules of our kinds, each beside its Python twin.

The API server of a cluster evaluates the text. The embedded server and the controllers call the
twin, which they find by the text in `TWINS`. To a rule, an absent member and an empty text are the
same.
"""

from collections.abc import Mapping
from typing import Any, Final

from gpuruntime.models.definitions.rule_builders import (
    apart,
    dns_label,
    is_sound,
    mendable_quantity,
    off_kernel_paths,
    plain_path,
    reserved,
    text_of,
    unique,
)
from gpuruntime.models.definitions.schemas import Rule, Twin
from gpuruntime.models.kubernetes.names import LONGEST_LABEL
from gpuruntime.models.kubernetes.quantities import parse_quantity

LONGEST_ORDINAL: Final = 10
LONGEST_POOL_NAME: Final = LONGEST_LABEL - 1 - LONGEST_ORDINAL  # the hyphen between them
PLATFORM_ENV: Final = ("SPEC_NAME", "UNIT_NAME", "GPU_COUNT", "MEMORY_LIMIT")
DEFAULT_SOCKET: Final = "/tmp/serverless-framework/framework.sock"  # noqa: S108  # inside the Pod

# A rule sees only the name of the metadata, so it recognizes a derived name by its form. That is
# the digest of an operationID, and the endings by which pools and functions name their units.
_DERIVED = "op-[0-9a-f]{40}"
_DERIVED_POOL = f"^{_DERIVED}$"
_DERIVED_STORAGE = _DERIVED_POOL
_DERIVED_UNIT = f"^{_DERIVED}(-(w-)?[1-9][0-9]*)?$"


def _names_a_port(self: Any, _: Any) -> bool:
    primary = self.get("access", {}).get("primaryPort", "")
    ports = self.get("template", {}).get("ports", [])
    return not primary or not ports or any(port["name"] == primary for port in ports)


def _has_one_worker_for_storage(self: Any, _: Any) -> bool:
    serverless = self.get("serverless")
    return not self.get("storageMounts") or not serverless or serverless["maxWorkers"] == 1


def _has_its_socket_off_storages(self: Any, _: Any) -> bool:
    socket = (self.get("serverless") or {}).get("framework", {}).get("socketPath", DEFAULT_SOCKET)
    folder = f"{socket.rpartition('/')[0]}/"
    paths = [mount["mountPath"] for mount in self.get("storageMounts", [])]
    are_apart = not any(folder.startswith(f"{path}/") or path.startswith(folder) for path in paths)
    return are_apart or not self.get("serverless")


def _has_its_files_off_storages(self: Any, _: Any) -> bool:
    files = [file["path"] for file in self.get("template", {}).get("files", [])]
    mounts = [mount["mountPath"] for mount in self.get("storageMounts", [])]
    return not any(
        f"{path}/".startswith(f"{mount}/") or mount.startswith(f"{path}/")
        for path in files
        for mount in mounts
    )


def _has_its_files_off_the_socket(self: Any, _: Any) -> bool:
    socket = (self.get("serverless") or {}).get("framework", {}).get("socketPath", DEFAULT_SOCKET)
    folder = f"{socket.rpartition('/')[0]}/"
    files = [file["path"] for file in self.get("template", {}).get("files", [])]
    are_apart = not any(
        f"{path}/".startswith(folder) or folder.startswith(f"{path}/") for path in files
    )
    return are_apart or not self.get("serverless")


def _has_no_secrets(self: Any, _: Any) -> bool:
    template = self.get("template", {})
    return not template.get("files") and not any(
        each.get("secret") for each in template.get("envs", [])
    )


def _keeps_its_owner(self: Any, old_self: Any) -> bool:
    after, before = (each.get("serverless", {}).get("workerOf") for each in (self, old_self))
    return bool(after == before)


def _generation_of(spec: Any) -> Any:
    return (spec.get("access") or {}).get("generation", 0)


UNIT_NAME: Final = (dns_label(LONGEST_LABEL), reserved(_DERIVED_UNIT))
POOL_NAME: Final = (dns_label(LONGEST_POOL_NAME), reserved(_DERIVED_POOL))

IMMUTABLE: Final = Rule(
    text="self == oldSelf",
    holds=lambda self, old_self: bool(self == old_self),
    message="cannot change: create another object for another envelope",
)
ENVELOPE: Final = (
    mendable_quantity("cpu"),
    mendable_quantity("memory"),
    Rule(
        text=f"{text_of('self', 'gpuProduct')} == {text_of('oldSelf', 'gpuProduct')}",
        holds=lambda self, old: bool(self.get("gpuProduct", "") == old.get("gpuProduct", "")),
        message="cannot change: create another object for another envelope",
        field=".gpuProduct",
    ),
)

UNIQUE_PORT_NAMES: Final = unique("name", message="ports must have different names")
UNIQUE_PORT_NUMBERS: Final = unique(
    "port", "protocol", message="ports must differ in number or protocol"
)
UNIQUE_ENV_NAMES: Final = unique("name", message="envs must have different names")
UNIQUE_STORAGES: Final = unique("name", message="a storage can be mounted once only")
UNIQUE_MOUNT_PATHS: Final = unique("mountPath", message="storages need different mountPaths")
APART_MOUNT_PATHS: Final = apart(
    "mountPath",
    "a storage cannot be mounted below another one: give each a path beside the others",
)
UNIQUE_FILES: Final = unique("path", message="files must have different paths")
APART_FILES: Final = apart("path", "a file cannot be below another one: give it another folder")

FREE_ENV_NAME: Final = Rule(
    text=f"!(self.name in {list(PLATFORM_ENV)})",
    holds=lambda self, _: self["name"] not in PLATFORM_ENV,
    message=f"is set by the platform, as are all of {', '.join(PLATFORM_ENV)}: use another name",
    field=".name",
    reason="FieldValueForbidden",
)
ONE_ENV_VALUE: Final = Rule(
    text=f"!has(self.secret) || {text_of('self', 'value')} == ''",
    holds=lambda self, _: not self.get("secret") or not self.get("value"),
    message="must be left out with a secret, which has the value",
    field=".value",
)
PRIMARY_PORT: Final = Rule(
    text="self.?access.primaryPort.orValue('') == '' || "
    "self.?template.ports.orValue([]).size() == 0 || "
    "self.template.ports.exists(p, p.name == self.access.primaryPort)",
    holds=_names_a_port,
    message="must be the name of one of template.ports",
    field=".access.primaryPort",
)

PLAIN_MOUNT_PATH: Final = plain_path("mountPath")
PLAIN_FILE_PATH: Final = plain_path("path")
FREE_MOUNT_PATH: Final = off_kernel_paths("mountPath")
FREE_FILE_PATH: Final = off_kernel_paths("path")
FREE_SOCKET_PATH: Final = off_kernel_paths("socketPath")

WORKER_RANGE: Final = Rule(
    text="self.minAvailableCount <= self.maxWorkers",
    holds=lambda self, _: bool(self["minAvailableCount"] <= self["maxWorkers"]),
    message="must not exceed maxWorkers",
    field=".minAvailableCount",
)
ONE_WORKER_FOR_STORAGE: Final = Rule(
    text="self.?storageMounts.orValue([]).size() == 0 || !has(self.serverless) || "
    "self.serverless.maxWorkers == 1",
    holds=_has_one_worker_for_storage,
    message="must be 1 with storageMounts: one unit mounts a storage at a time",
    field=".serverless.maxWorkers",
)
_SOCKET = (
    f"(has(self.serverless.framework) ? self.serverless.framework.socketPath : '{DEFAULT_SOCKET}')"
)
# The socket's folder is a volume of its own, which the worker's sidecar mounts as well.
SOCKET_OFF_STORAGES: Final = Rule(
    text="!has(self.serverless) || !has(self.storageMounts) || "
    f"[{_SOCKET}.substring(0, {_SOCKET}.lastIndexOf('/') + 1)].all(folder, "
    "self.storageMounts.all(m, !folder.startsWith(m.mountPath + '/') && "
    "!m.mountPath.startsWith(folder)))",
    holds=_has_its_socket_off_storages,
    message="must have a folder apart from the mountPaths of all storages: none of them within "
    "the other",
    field=".serverless.framework.socketPath",
)
FILES_OFF_STORAGES: Final = Rule(
    text="!has(self.template) || !has(self.template.files) || !has(self.storageMounts) || "
    "self.template.files.all(f, self.storageMounts.all(m, "
    "!(f.path + '/').startsWith(m.mountPath + '/') && !m.mountPath.startsWith(f.path + '/')))",
    holds=_has_its_files_off_storages,
    message="must be apart from the mountPaths of all storages: none of them within the other",
    field=".template.files",
)
FILES_OFF_SOCKET: Final = Rule(
    text="!has(self.serverless) || !has(self.template) || !has(self.template.files) || "
    f"[{_SOCKET}.substring(0, {_SOCKET}.lastIndexOf('/') + 1)].all(folder, "
    "self.template.files.all(f, !(f.path + '/').startsWith(folder) && "
    "!folder.startsWith(f.path + '/')))",
    holds=_has_its_files_off_the_socket,
    message="must be apart from the folder of the function's socket",
    field=".template.files",
)
NO_SECRETS_IN_STOCK: Final = Rule(
    text="!has(self.template) || ((!has(self.template.files) || "
    "self.template.files.size() == 0) && (!has(self.template.envs) || "
    "self.template.envs.all(e, !has(e.secret))))",
    holds=_has_no_secrets,
    message="cannot use secrets: stock has no tenant, and runs where no secrets are; a unit has "
    "its own from its start",
    field=".template",
)
SAME_OWNER: Final = Rule(
    text="self.?serverless.workerOf == oldSelf.?serverless.workerOf",
    holds=_keeps_its_owner,
    message="is set by the platform when it makes a worker, and cannot change",
    field=".serverless.workerOf",
    reason="FieldValueForbidden",
)

# At the spec, since a rule of `access` is not evaluated when the whole member is removed.
RISING_GENERATION: Final = Rule(
    text="self.?access.generation.orValue(0) >= oldSelf.?access.generation.orValue(0)",
    holds=lambda self, old: bool(_generation_of(self) >= _generation_of(old)),
    message="never falls, since tickets that it has ended would count again",
    field=".access.generation",
    reason="FieldValueForbidden",
)
# A jump to the maximum would leave no generation for a revocation.
RISING_BY_ONE: Final = Rule(
    text="self.?access.generation.orValue(0) <= oldSelf.?access.generation.orValue(0) + 1",
    holds=lambda self, old: bool(_generation_of(self) <= _generation_of(old) + 1),
    message="rises by at most 1 at a time",
    field=".access.generation",
    reason="FieldValueForbidden",
)


def _never_shrinks(self: Any, old_self: Any) -> bool:
    before, after = old_self["size"], self["size"]
    if not is_sound(before):
        return True
    return is_sound(after) and parse_quantity(after) >= parse_quantity(before)


def _has_one_source(self: Any, _: Any) -> bool:
    return bool(self.get("fromImage", "")) != bool(self.get("fromStorageName", ""))


def _has_words(self: Any) -> bool:
    return bool(self.get("command") or self.get("args"))


NEVER_SHRINKS: Final = Rule(
    text="!(isQuantity(oldSelf.size) && quantity(oldSelf.size).isGreaterThan(quantity('0')) && "
    "quantity(oldSelf.size).isLessThan(quantity('1Ei'))) || (isQuantity(self.size) && "
    "!quantity(self.size).isLessThan(quantity(oldSelf.size)) && "
    "quantity(self.size).isLessThan(quantity('1Ei')))",
    holds=_never_shrinks,
    message="may grow and never shrink: create another storage and copy what is needed",
    field=".size",
)
FIXED_CLASS: Final = Rule(
    text=f"{text_of('self', 'storageClassName')} == {text_of('oldSelf', 'storageClassName')}",
    holds=lambda self, old: bool(
        self.get("storageClassName", "") == old.get("storageClassName", "")
    ),
    message="cannot change: create another storage of that class and copy this one",
    field=".storageClassName",
)
ONE_SOURCE: Final = Rule(
    text="(self.?fromImage.orValue('') != '') != (self.?fromStorageName.orValue('') != '')",
    holds=_has_one_source,
    message="needs either fromImage or fromStorageName, and not both",
)
COMMAND_FOR_IMAGE: Final = Rule(
    text="self.?fromImage.orValue('') == '' || self.?command.orValue([]).size() > 0 || "
    "self.?args.orValue([]).size() > 0",
    holds=lambda self, _: not self.get("fromImage", "") or _has_words(self),
    message="needs a command or args: an image alone fills nothing",
    field=".fromImage",
)
NO_COMMAND_FOR_COPY: Final = Rule(
    text="self.?fromImage.orValue('') != '' || (self.?command.orValue([]).size() == 0 && "
    "self.?args.orValue([]).size() == 0)",
    holds=lambda self, _: bool(self.get("fromImage", "")) or not _has_words(self),
    message="copies as it is: command and args belong to fromImage",
    field=".fromStorageName",
)
NOT_ITSELF: Final = Rule(
    text="self.?spec.prepare.fromStorageName.orValue('') != self.metadata.name",
    holds=lambda self, _: (
        (self["spec"].get("prepare") or {}).get("fromStorageName", "") != self["metadata"]["name"]
    ),
    message="cannot be the storage itself",
    field=".spec.prepare.fromStorageName",
)
STORAGE_NAME: Final = (dns_label(LONGEST_LABEL), reserved(_DERIVED_STORAGE))

TWINS: Final[Mapping[str, Twin]] = {
    rule.text: rule.holds
    for rule in (
        *UNIT_NAME,
        *POOL_NAME,
        IMMUTABLE,
        *ENVELOPE,
        UNIQUE_PORT_NAMES,
        UNIQUE_PORT_NUMBERS,
        UNIQUE_ENV_NAMES,
        UNIQUE_STORAGES,
        UNIQUE_MOUNT_PATHS,
        APART_MOUNT_PATHS,
        UNIQUE_FILES,
        APART_FILES,
        FREE_ENV_NAME,
        ONE_ENV_VALUE,
        PRIMARY_PORT,
        PLAIN_MOUNT_PATH,
        FREE_MOUNT_PATH,
        PLAIN_FILE_PATH,
        FREE_FILE_PATH,
        FREE_SOCKET_PATH,
        WORKER_RANGE,
        ONE_WORKER_FOR_STORAGE,
        SOCKET_OFF_STORAGES,
        FILES_OFF_STORAGES,
        FILES_OFF_SOCKET,
        NO_SECRETS_IN_STOCK,
        SAME_OWNER,
        RISING_GENERATION,
        RISING_BY_ONE,
        *STORAGE_NAME,
        NEVER_SHRINKS,
        FIXED_CLASS,
        ONE_SOURCE,
        COMMAND_FOR_IMAGE,
        NO_COMMAND_FOR_COPY,
        NOT_ITSELF,
    )
}
