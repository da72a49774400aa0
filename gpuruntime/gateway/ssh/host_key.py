"""The host key of the gateway, the same for all replicas."""

import os
from pathlib import Path

import asyncssh

from gpuruntime.models.definitions.ssh_keys import fault_of_ssh_key


def host_key_in(content: bytes) -> asyncssh.SSHKey:
    """Return the private key of a file of `ssh-keygen`. Raise ValueError."""
    try:
        key = asyncssh.import_private_key(content)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise ValueError(f"is no private key without a passphrase: {error}") from error
    if fault := fault_of_ssh_key(public_line_of(key)):
        raise ValueError(fault)
    return key


def write_host_key(path: Path) -> None:
    """Write a new key and its public half, as `ssh-keygen` does."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.export_private_key())
    path.with_name(f"{path.name}.pub").write_bytes(key.export_public_key())


def public_line_of(key: asyncssh.SSHKey) -> str:
    """Return type and base64 of the public half."""
    return " ".join(key.export_public_key().decode().split()[:2])
