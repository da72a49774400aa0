"""The public half of the gateway's SSH host key, for tickets: roles that name it need no SSH."""

from typing import Final

from gpuruntime.errors import ConfigurationError
from gpuruntime.models.definitions.ssh_keys import fault_of_ssh_key
from gpuruntime.roles.reloaded_file import read_file

PUBLIC: Final = ".pub"
WHAT: Final = "public SSH host key"


def public_host_keys(path: str) -> tuple[str, ...]:
    """Return the keys of the file beside the private one, as `ssh-keygen` writes it.

    Without a path there is none. The private half is read by the gateway alone. Raise
    ConfigurationError.
    """
    return tuple(_keys_in(f"{path}{PUBLIC}")) if path else ()


def _keys_in(path: str) -> list[str]:
    text = read_file(path, WHAT).decode(errors="replace")
    keys = [" ".join(line.split()[:2]) for line in text.splitlines() if line.strip()]
    for key in keys:
        fault = fault_of_ssh_key(key) if " " in key else "is no SSH public key"
        if fault:
            raise ConfigurationError(f"{WHAT} {path}: {fault}")
    if not keys:
        raise ConfigurationError(f"{WHAT} {path}: is empty")
    return keys
