"""Credential plugins: programs that print an ExecCredential, run with a deadline.

The output of a plugin is never quoted in a message: it may contain a token.
"""

import os
import signal
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import attrs

from gpuruntime.errors import ConfigurationError
from gpuruntime.kube.connect.kubeconfig import is_text
from gpuruntime.models.encoding import codec

TIMEOUT_SECONDS = 30.0
LONGEST_COMPLAINT = 300


@attrs.frozen(kw_only=True, slots=True)
class PluginCredential:
    """A token, or a client certificate with its key, or both."""

    token: str = ""
    clientCertificateData: str = ""
    clientKeyData: str = ""
    expirationTimestamp: datetime | None = None


@attrs.frozen(kw_only=True, slots=True)
class _ExecCredential:
    apiVersion: str = ""
    kind: str = ""
    status: PluginCredential = PluginCredential()


class ExecPlugin:
    """Run a plugin in a worker thread; stop() may be called from any other thread."""

    def __init__(self, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._timeout_seconds = timeout_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def run(
        self, plugin: Mapping[str, Any], cluster: Mapping[str, Any], origin: str
    ) -> PluginCredential:
        subject = f"{origin}: credential plugin {plugin.get('command')!r}"
        if not plugin.get("command") or not plugin.get("apiVersion"):
            raise ConfigurationError(f"{subject}: command and apiVersion are both needed")
        _demand_shape(plugin, subject)
        if plugin.get("interactiveMode") == "Always":
            raise ConfigurationError(f"{subject}: it needs a terminal: use one that does not")
        printed = self._printed(plugin, cluster, subject)
        return _credential(printed, str(plugin["apiVersion"]), subject)

    def stop(self) -> None:
        """End a running plugin and all that it started. Later runs end at once."""
        self._is_stopped = True
        if self._process is not None:
            _kill(self._process)

    def _printed(
        self, plugin: Mapping[str, Any], cluster: Mapping[str, Any], subject: str
    ) -> bytes:
        with self._start(plugin, cluster, subject) as process:
            self._process = process
            if self._is_stopped:
                _kill(process)
            try:
                printed, complaint = process.communicate(timeout=self._timeout_seconds)
            except subprocess.TimeoutExpired as error:
                _kill(process)
                raise ConfigurationError(
                    f"{subject}: no answer within {self._timeout_seconds:g} s: run it by hand"
                ) from error
            finally:
                self._process = None
        if process.returncode != 0:
            said = " ".join(complaint.decode(errors="replace").split())[-LONGEST_COMPLAINT:]
            raise ConfigurationError(f"{subject}: exit code {process.returncode}: {said}")
        return printed

    def _start(
        self, plugin: Mapping[str, Any], cluster: Mapping[str, Any], subject: str
    ) -> subprocess.Popen[bytes]:
        environment = _environment(plugin, cluster, subject)
        try:
            return subprocess.Popen(  # noqa: S603  # the operator's own kubeconfig names it
                [str(plugin["command"]), *(str(item) for item in plugin.get("args") or ())],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # It runs in its own process group, so that its children end with it.
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            hint = " ".join(str(plugin.get("installHint") or "is it installed?").split())
            raise ConfigurationError(f"{subject}: cannot be run: {error}: {hint}") from error


def _demand_shape(plugin: Mapping[str, Any], subject: str) -> None:
    """Check the types of members. A bad value is not quoted: it may be a secret."""
    for member in ("command", "apiVersion"):
        if not is_text(plugin[member]):
            raise ConfigurationError(f"{subject}: {member} is not plain text: write it in quotes")
    arguments, variables = plugin.get("args"), plugin.get("env")
    if not isinstance(arguments, list | None):
        raise ConfigurationError(f"{subject}: args is not a list: write each in a line of its own")
    if not isinstance(variables, list | None):
        raise ConfigurationError(f"{subject}: env is not a list: write items with name and value")


def _environment(
    plugin: Mapping[str, Any], cluster: Mapping[str, Any], subject: str
) -> dict[str, str]:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = {
            name: value for name, value in cluster.items() if name != "certificate-authority"
        }
    info = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": spec}
    own = {
        str(item["name"]): str(item.get("value") or "")
        for item in plugin.get("env") or ()
        if isinstance(item, dict) and "name" in item
    }
    try:
        text = codec.encode(info).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{subject}: provideClusterInfo: the cluster cannot be written as JSON: "
            "check its extensions"
        ) from error
    return {**os.environ, **own, "KUBERNETES_EXEC_INFO": text}


def _credential(printed: bytes, api_version: str, subject: str) -> PluginCredential:
    try:
        answer = codec.decode(printed, _ExecCredential)
    except codec.MalformedObjectError as error:
        raise ConfigurationError(f"{subject}: no ExecCredential printed: {error.fault}") from error
    if answer.kind != "ExecCredential" or answer.apiVersion != api_version:
        raise ConfigurationError(
            f"{subject}: printed {answer.apiVersion} {answer.kind} "
            f"instead of {api_version} ExecCredential"
        )
    credential = answer.status
    if bool(credential.clientCertificateData) != bool(credential.clientKeyData):
        raise ConfigurationError(f"{subject}: a client certificate and its key go together")
    if not credential.token and not credential.clientCertificateData:
        raise ConfigurationError(f"{subject}: printed neither a token nor a client certificate")
    return attrs.evolve(credential, expirationTimestamp=_aware(credential.expirationTimestamp))


def _aware(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
