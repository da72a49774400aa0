"""The functions that the scripts share."""

import os
import subprocess
from pathlib import Path

import pytest

CALLS = Path(__file__).parents[3] / "examples" / "calls.sh"


@pytest.mark.parametrize(
    ("argument", "variables", "found"),
    [
        pytest.param("", {}, "http://127.0.0.1:8080", id="none"),
        pytest.param("", {"GPURUNTIME_SERVER": "http://s"}, "http://s", id="that of the commands"),
        pytest.param(
            "",
            {"GPURUNTIME_SERVER": "http://s", "GPURUNTIME_API": "http://a"},
            "http://a",
            id="its own",
        ),
        pytest.param("http://x", {"GPURUNTIME_API": "http://a"}, "http://x", id="the argument"),
    ],
)
def test_a_script_finds_the_api(argument: str, variables: dict[str, str], found: str) -> None:
    usual = {key: value for key, value in os.environ.items() if not key.startswith("GPURUNTIME_")}
    ran = subprocess.run(
        ["bash", "-c", 'source "$0" "$1"; echo "$api"', str(CALLS), argument],
        capture_output=True,
        text=True,
        check=True,
        env=usual | variables,
    )
    assert ran.stdout == f"{found}/api/v1\n"
