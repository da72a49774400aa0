"""Kubeconfig files and credential plugins, written into a test's directory."""

import sys
from pathlib import Path
from typing import Any

import yaml


def write_kubeconfig(
    directory: Path,
    server: str,
    *,
    user: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    name: str = "config",
) -> Path:
    """Write a kubeconfig with one context, called dev."""
    file = directory / name
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    file.write_text(yaml.safe_dump(document))
    return file


def write_plugin(directory: Path, source: str) -> dict[str, Any]:
    """Return the exec section of a user whose plugin runs these lines of Python."""
    file = directory / "plugin.py"
    file.write_text(source)
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-S", str(file)],
        "interactiveMode": "Never",
    }


def printing(status: str) -> str:
    """Return a plugin's source that prints an ExecCredential; `status` is a Python expression."""
    return (
        "import datetime, json, os, pathlib, sys\n"
        "here = pathlib.Path(__file__).parent\n"
        "def count():\n"
        "    runs = here / 'runs'\n"
        "    n = int(runs.read_text()) + 1 if runs.exists() else 1\n"
        "    runs.write_text(str(n))\n"
        "    return n\n"
        "n = count()\n"
        "def in_seconds(s):\n"
        "    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=s)\n"
        "    return at.strftime('%Y-%m-%dT%H:%M:%SZ')\n"
        f"status = {status}\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1',"
        " 'kind': 'ExecCredential', 'status': status}))\n"
    )
