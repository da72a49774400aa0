"""What the file server of a storage is told to do, and under which path it does it."""

from typing import Final

ACCESSOR_PORT: Final = 5000
# Of either family; dufs leaves one out where a machine has no address of it.
ANY_ADDRESS: Final = "0.0.0.0,::"


def files_path(storage: str) -> str:
    """The same at the API and at the file server, so that links and listings need no rewriting."""
    return f"/api/v1/gpu-storages/{storage}/files"


def accessor_arguments(
    storage: str, *, folder: str, is_writable: bool, port: int = ACCESSOR_PORT
) -> tuple[str, ...]:
    """For dufs; what is not allowed here, such as links that lead out of the folder, is not."""
    uploads = ("--allow-upload", "--allow-delete") if is_writable else ()
    prefix = files_path(storage)
    return (folder, "--bind", ANY_ADDRESS, "--port", str(port), "--path-prefix", prefix, *uploads)
