"""The arguments of a storage's file server, and the path under which it serves files."""

from typing import Final

ACCESSOR_PORT: Final = 5000
# Addresses of both families; dufs leaves out a family that the machine does not have.
ANY_ADDRESS: Final = "0.0.0.0,::"


def files_path(storage: str) -> str:
    """Return the path of the files.

    It is the same at the API and at the file server, so that links and listings need no rewriting.
    """
    return f"/api/v1/gpu-storages/{storage}/files"


def accessor_arguments(
    storage: str, *, folder: str, is_writable: bool, port: int = ACCESSOR_PORT
) -> tuple[str, ...]:
    """Return the arguments of dufs, which forbids everything that they do not allow.

    Links that lead out of the folder are an example.
    """
    uploads = ("--allow-upload", "--allow-delete") if is_writable else ()
    prefix = files_path(storage)
    return (folder, "--bind", ANY_ADDRESS, "--port", str(port), "--path-prefix", prefix, *uploads)
