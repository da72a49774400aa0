"""Access by the service account that Kubernetes mounts into every Pod."""

import os
from collections.abc import Mapping
from pathlib import Path

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException
from kubernetes_asyncio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)

from gpuruntime.errors import ConfigurationError
from gpuruntime.kube.connect.endpoint import Endpoint, endpoint_of


class InCluster:
    """The service account that Kubernetes mounts into the Pod. Its token file rotates in place."""

    is_costly = False

    def __init__(
        self,
        *,
        token_file: str = SERVICE_TOKEN_FILENAME,
        certificate_file: str = SERVICE_CERT_FILENAME,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._token_file = token_file
        self._certificate_file = certificate_file
        self._environment = environment

    @property
    def is_present(self) -> bool:
        has_address = bool(self._environment.get(SERVICE_HOST_ENV_NAME))
        return has_address and Path(self._token_file).is_file()

    def load(self) -> Endpoint:
        origin = "in-cluster service account"
        configuration = Configuration()
        loader = InClusterConfigLoader(
            token_filename=self._token_file,
            cert_filename=self._certificate_file,
            try_refresh_token=False,
            environ=dict(self._environment),
        )
        try:
            loader.load_and_set(configuration)
        except (ConfigException, OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"{origin}: {error}: check the Pod's serviceAccountName and "
                "automountServiceAccountToken, or give a kubeconfig"
            ) from error
        return endpoint_of(origin, configuration)

    def stop(self) -> None:
        pass
