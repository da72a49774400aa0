"""Flags and files as bodies of requests; the API validates them."""

import hashlib
import json
import re
from base64 import b32encode, b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from gpuruntime.client.errors import UnusableInputError
from gpuruntime.errors import ConfigurationError
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.views.units import UnitView
from gpuruntime.strict.yaml_documents import mapping_of

_STDIN: Final = "-"
_STDIN_PATH: Final = "/dev/stdin"
# Characters of a specName that a DNS label has not.
_UNFIT: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_STEM: Final = 20
# They become 8 characters in base32. The API refuses a name that another operation has.
_NAME_DIGEST_BYTES: Final = 5
# Names that the API derives itself begin with this.
_RESERVED: Final = "op-"
_ACCESSORS: Final = {
    "off": {"enabled": False},
    "read": {"enabled": True, "writable": False},
    "write": {"enabled": True, "writable": True},
}


def body_of(file: str | None, flags: Mapping[str, Any]) -> JsonObject:
    """Return the file's members, overridden by the flags that are not None."""
    document = _document_of(file) if file else {}
    said = {name: value for name, value in flags.items() if value is not None}
    return {**document, **said}


def merged(
    document: JsonObject, nested: Mapping[str, JsonObject | None], before: UnitView
) -> JsonObject:
    """Return the change with these nested members, over those of the file or of the unit."""
    held = msgspec.to_builtins(before)
    for name, given in nested.items():
        if given:
            around: Any = document.get(name) or held[name] or {}
            kept = {member: value for member, value in around.items() if value is not None}
            document = {**document, name: {**kept, **given}}
    return document


def _document_of(file: str) -> dict[str, object]:
    """Read YAML or JSON; YAML alone rejects some JSON: tabs and surrogates."""
    try:
        data = Path(_STDIN_PATH if file == _STDIN else file).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"body {file}: {error.strerror}") from error
    if data.lstrip().startswith(b"{"):
        with suppress(ValueError, RecursionError):
            document: dict[str, object] = json.loads(data, object_pairs_hook=_once)
            return document
    return mapping_of(data, f"body {file}")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Leave a duplicate key to the YAML reader, which reports it."""
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError
    return document


def demand(document: Mapping[str, Any], *needed: str) -> None:
    """Raise ConfigurationError if a needed member is missing, before anything is sent."""
    missing = [name for name in needed if name not in document]
    if missing:
        raise ConfigurationError(f"missing: {', '.join(missing)}; set it by a flag or in a file")


def with_name(document: JsonObject, what: str) -> JsonObject:
    """Return the document with a name that fits a table, unless it has one.

    The name is the specName, else `what` is created, and a hash of the operationID.
    """
    if "name" in document:
        return document
    digest = hashlib.sha256(str(document["operationID"]).encode()).digest()[:_NAME_DIGEST_BYTES]
    stem = _UNFIT.sub("-", str(document.get("specName", "")))[:_LONGEST_STEM].strip("-")
    if not stem or f"{stem}-".startswith(_RESERVED):
        stem = what
    return {**document, "name": f"{stem}-{b32encode(digest).decode().lower()}"}


def accessor_of(word: str | None) -> Mapping[str, bool] | None:
    return None if word is None else _ACCESSORS[word]


def template_of(
    words: list[str],
    ports: Iterable[str] | None,
    envs: Iterable[str] | None,
    *,
    secret_envs: Iterable[str] | None = None,
    secret_files: Iterable[str] | None = None,
) -> JsonObject | None:
    """Return the template, or None if no flag of it is given."""
    template: JsonObject = {}
    if words:
        template["command"] = words[:1]
        template["args"] = words[1:]
    if ports:
        template["ports"] = [_port(each) for each in ports]
    if envs or secret_envs:
        plain = [_env(each) for each in envs or ()]
        secret = [_from_secret("--env-secret", "name", each) for each in secret_envs or ()]
        template["envs"] = [*plain, *secret]
    if secret_files:
        files = [_from_secret("--file-secret", "path", each) for each in secret_files]
        template["files"] = files
    return template or None


def access_of(key_files: Iterable[str] | None, wake: str | None) -> JsonObject | None:
    """Return the access, or None if no flag of it is given."""
    access: JsonObject = {}
    if key_files:
        access["sshKeys"] = [key for file in key_files for key in _keys_in(file)]
    if wake is not None:
        access["wake"] = wake == "on"
    return access or None


def mounts_of(mounts: Iterable[str] | None) -> list[JsonObject] | None:
    return [_mount(each) for each in mounts] if mounts else None


def secret_data_of(
    literals: Iterable[str] | None, files: Iterable[str] | None
) -> dict[str, JsonObject | None]:
    """Return the members of a secret with its values; a file that is no text is sent as base64."""
    texts: JsonObject = {}
    binary: JsonObject = {}
    for literal in literals or ():
        key, equals, value = literal.partition("=")
        if not equals:
            raise UnusableInputError("--from-literal: must be such as token=value")
        texts[key] = value
    for each in files or ():
        key, equals, path = each.partition("=")
        content = _content_of(path if equals else each)
        name = key if equals else Path(each).name
        try:
            texts[name] = content.decode()
        except UnicodeDecodeError:
            binary[name] = b64encode(content).decode()
    return {"data": texts or None, "binaryData": binary or None}


def registry_of(
    server: str | None, username: str | None, password_file: str | None
) -> JsonObject | None:
    """Return the login; a password comes from a file, as other users can read flags."""
    if not server:
        return None
    if not (username and password_file):
        raise ConfigurationError("--registry needs --username and --password-file")
    try:
        password = _content_of(password_file).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigurationError(f"secret {password_file}: is not UTF-8 text") from None
    return {"server": server, "username": username, "password": password}


def _content_of(file: str) -> bytes:
    try:
        return Path(_STDIN_PATH if file == _STDIN else file).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"secret {file}: {error.strerror}") from error


def payload_of(data: str | None, file: str | None) -> Any:
    """Return the payload. Raise UnusableInputError if it is not JSON, ConfigurationError if
    unreadable.
    """
    if file:
        data = _text_of(file, "payload")
    if data is None:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnusableInputError(
            f"the payload is not JSON: {error}; put a text in double quotes"
        ) from error


def _keys_in(file: str) -> list[str]:
    """Return the lines of a file of public keys, as ssh-keygen and authorized_keys have them."""
    lines = [line.strip() for line in _text_of(file, "public key").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _text_of(file: str, what: str) -> str:
    try:
        return Path(_STDIN_PATH if file == _STDIN else file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "") or "is not UTF-8 text"
        raise ConfigurationError(f"{what} {file}: {reason}") from error


def _port(text: str) -> JsonObject:
    """Return a port of a template; one without a name is named by its number."""
    name, _, number = text.rpartition(":")
    if not (number.isascii() and number.isdecimal()):
        raise UnusableInputError(f"--port {text!r}: must be such as 8080 or http:8080")
    return {"name": name or f"port-{number}", "port": int(number)}


def _env(text: str) -> JsonObject:
    name, equals, value = text.partition("=")
    if not equals:
        raise UnusableInputError(f"--env {text!r}: must be such as NAME=value")
    return {"name": name, "value": value}


def _from_secret(flag: str, member: str, text: str) -> JsonObject:
    place, _, source = text.rpartition("=")
    name, colon, key = source.partition(":")
    if not (place and colon):
        raise UnusableInputError(f"{flag} {text!r}: must be such as TOKEN=hub:token")
    return {member: place, "secret": {"name": name, "key": key}}


def _mount(text: str) -> JsonObject:
    name, colon, path = text.partition(":")
    if not colon:
        raise UnusableInputError(f"--mount {text!r}: must be such as weights:/models")
    is_read_only = path.endswith(":ro")
    mount: JsonObject = {"name": name, "mountPath": path.removesuffix(":ro")}
    return {**mount, "readOnly": True} if is_read_only else mount
