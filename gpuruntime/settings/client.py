"""Settings of the client commands: from flags, else from the environment."""

import os
from collections.abc import Mapping
from typing import Final

import attrs

# The token itself has no flag, because process listings show flags.
VARIABLES: Final = {
    "server": "GPURUNTIME_SERVER",
    "token": "GPURUNTIME_TOKEN",
    "token_file": "GPURUNTIME_TOKEN_FILE",
    "ca_file": "GPURUNTIME_CA_FILE",
}


@attrs.frozen(kw_only=True, slots=True)
class ClientSettings:
    """An empty member stands for the client's default."""

    server: str = ""
    token: str = attrs.field(default="", repr=False)
    token_file: str = ""
    ca_file: str = ""
    has_colours: bool = True


def load(
    flags: Mapping[str, str | None], *, environment: Mapping[str, str] = os.environ
) -> ClientSettings:
    """Read the settings. A flag comes before its variable, and a token file before a token."""
    return ClientSettings(
        **{
            name: flags.get(name) or environment.get(variable, "")
            for name, variable in VARIABLES.items()
        },
        has_colours=not environment.get("NO_COLOR") and environment.get("TERM") != "dumb",
    )
