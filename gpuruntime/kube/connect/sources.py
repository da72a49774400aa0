"""A kubeconfig as a source of access, and the choice between it and the Pod's account.

kubernetes_asyncio turns the entries into its Configuration. Loading blocks on files and programs,
so it runs in a worker thread.
"""

import asyncio
import base64
import binascii
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.kube_config import KubeConfigLoader

from gpuruntime.errors import ConfigurationError
from gpuruntime.kube.connect.endpoint import (
    CERTIFICATES,
    Endpoint,
    Source,
    endpoint_of,
    is_http_url,
)
from gpuruntime.kube.connect.exec_plugin import ExecPlugin, PluginCredential
from gpuruntime.kube.connect.in_cluster import InCluster
from gpuruntime.kube.connect.kubeconfig import (
    DEFAULT_LOCATION,
    VARIABLE,
    Members,
    Selection,
    read_selection,
)

# Its log lines are unstructured, and each fault that it logs also reaches us as an error.
logging.getLogger("kubernetes_asyncio").setLevel(logging.CRITICAL + 1)


class Kubeconfig:
    """The first load fixes the context and the server: a reload never changes the cluster."""

    def __init__(self, paths: str, context: str = "", *, plugin: ExecPlugin | None = None) -> None:
        self._paths = paths
        self._context = context
        self._plugin = plugin or ExecPlugin()
        self._server = ""
        self.is_costly = False

    def load(self) -> Endpoint:
        selection = read_selection(self._paths, self._context)
        self._demand_same_server(selection)
        _refuse_unsupported(selection)
        credential = self._plugin_credential(selection)
        cluster, user, inline = _split_inline(selection, credential)
        configuration = _configuration(selection, cluster, user)
        access = endpoint_of(
            selection.origin,
            configuration,
            inline=inline,
            expires_at=credential.expirationTimestamp,
        )
        self._context = selection.context
        self._server = selection.cluster["server"]
        return access

    def stop(self) -> None:
        self._plugin.stop()

    def _demand_same_server(self, selection: Selection) -> None:
        server = selection.cluster.get("server")
        if not is_http_url(server):
            raise ConfigurationError(
                f"{selection.origin}: the cluster's server {server!r} is no URL: "
                "give one like https://10.0.0.1:6443"
            )
        if self._server and server != self._server:
            raise ConfigurationError(
                f"{selection.origin}: the server changed from {self._server} to {server}: "
                "restart to use it"
            )

    def _plugin_credential(self, selection: Selection) -> PluginCredential:
        plugin = selection.user.get("exec")
        if not plugin:
            return PluginCredential()
        if not isinstance(plugin, dict):
            raise ConfigurationError(f"{selection.origin}: the user's exec is not a mapping")
        self.is_costly = True
        return self._plugin.run(plugin, selection.cluster, selection.origin)


def find_source(
    *, kubeconfig: str = "", context: str = "", environment: Mapping[str, str] = os.environ
) -> Source:
    """Return the kubeconfig or context asked for, else the Pod's account, else kubectl's files."""
    in_cluster = InCluster()
    if not kubeconfig and not context and in_cluster.is_present:
        return in_cluster
    return Kubeconfig(kubeconfig or environment.get(VARIABLE) or DEFAULT_LOCATION, context)


def _refuse_unsupported(selection: Selection) -> None:
    """Reject entries that cannot be ignored: we would act as another user than was meant."""
    for member, remedy in {
        "auth-provider": "use a credential plugin (exec) instead",
        "as": "use a user of its own instead of impersonation",
    }.items():
        if selection.user.get(member):
            raise ConfigurationError(
                f"{selection.origin}: the user's {member} is not supported: {remedy}"
            )


def _split_inline(
    selection: Selection, credential: PluginCredential
) -> tuple[Members, Members, dict[str, bytes]]:
    """Separate certificates given as data, because the library would leave them on disk."""
    cluster, user = dict(selection.cluster), _authenticated(selection, credential)
    inline = {}
    for field, name in CERTIFICATES.items():
        holder = cluster if field == "ssl_ca_cert" else user
        data = holder.pop(f"{name}-data", None)
        if data:
            holder.pop(name, None)
            inline[field] = _decoded(data, f"{selection.origin}: {name}-data")
    if credential.clientCertificateData:
        user.pop("client-certificate", None)
        user.pop("client-key", None)
        inline["cert_file"] = credential.clientCertificateData.encode()
        inline["key_file"] = credential.clientKeyData.encode()
    return cluster, user, inline


def _authenticated(selection: Selection, credential: PluginCredential) -> Members:
    user = {name: value for name, value in selection.user.items() if name != "exec"}
    if credential.token:
        user["token"] = credential.token
    elif user.get("tokenFile"):
        # As for kubectl, the file comes before a token beside it, because the file rotates.
        user["token"] = _token(Path(user["tokenFile"]), selection.origin)
    user.pop("tokenFile", None)
    return user


def _token(file: Path, origin: str) -> str:
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{origin}: tokenFile cannot be read: {error}") from error
    if not token:
        raise ConfigurationError(f"{origin}: tokenFile {file} is empty: write a token into it")
    return token


def _decoded(data: str, subject: str) -> bytes:
    if not data.isascii():
        raise ConfigurationError(f"{subject} is not base64: it contains other characters")
    try:
        return base64.b64decode(data, validate=False)
    except binascii.Error as error:
        raise ConfigurationError(f"{subject} is not base64: {error}") from error


def _configuration(selection: Selection, cluster: Members, user: Members) -> Any:
    name = selection.context
    document = {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
    }
    configuration = Configuration()
    try:
        loader = KubeConfigLoader(config_dict=document, config_base_path="")
        asyncio.run(loader.load_and_set(configuration))
    except (ConfigException, OSError, TypeError, ValueError, AssertionError) as error:
        raise ConfigurationError(f"{selection.origin}: {error}") from error
    return configuration
