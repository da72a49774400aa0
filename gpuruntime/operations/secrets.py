"""The use cases on secrets: store, list and delete them, without a right to read one.

The names of a tenant's secrets are in a ConfigMap of the system namespace, its index. A name is
written to the index before its Secret, and removed after it. A write that is still under way when
another replica deletes the secret can leave a Secret without a listed name. So a deletion deletes
the Secret of every name, listed or not.
"""

import base64
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Final

import attrs

from gpuruntime.concurrency.keyed_lock import KeyedLock
from gpuruntime.kube.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    InvalidError,
    KubeError,
    MalformedAnswerError,
    NotFoundError,
    OutcomeUnknownError,
)
from gpuruntime.kube.transport import STRATEGIC_PATCH
from gpuruntime.models.encoding import codec
from gpuruntime.models.encoding.json import JsonObject
from gpuruntime.models.kinds import labels
from gpuruntime.models.kinds.secrets import (
    DOCKER_CONFIG,
    KUBERNETES_TYPES,
    MOST_SECRETS,
    SecretType,
    digest_of,
    secret_name_of,
)
from gpuruntime.models.kubernetes.cluster import CONFIG_MAPS
from gpuruntime.models.kubernetes.metadata import Key
from gpuruntime.models.kubernetes.names import is_dns_label
from gpuruntime.models.kubernetes.secrets import SECRET_METADATA
from gpuruntime.models.requests.secrets import CreateSecret, RegistryLogin
from gpuruntime.operations.claim.protocol import REFUSAL_STATUSES
from gpuruntime.operations.context import OperationContext
from gpuruntime.operations.errors import (
    NameTakenError,
    SecretNotFoundError,
    TooManySecretsError,
    bounded,
)
from gpuruntime.strict.structure import Problem, StrictError

SECRETS_APP: Final = "gpuruntime-secrets"
NONCE_BYTES: Final = 8
_REJECTED: Final = Problem(
    field="",
    message="the cluster rejects the Secret, in words that may quote it and are left out: "
    "delete it and create it again",
)


@attrs.frozen(kw_only=True, slots=True)
class ListedSecret:
    """A secret as the index lists it; its moments are by the API's clock.

    Each store has a nonce, so that it changes the index, and a deletion that read it before fails.
    """

    type: str = SecretType.OPAQUE
    createdAt: datetime
    updatedAt: datetime
    nonce: str = ""


@attrs.frozen(kw_only=True, slots=True)
class _Index:
    """The secrets of a tenant by name, at the version of its ConfigMap, or "" without one."""

    listed: Mapping[str, ListedSecret]
    version: str


class Secrets:
    """The use cases on secrets; methods raise OperationsError or StrictError.

    No error, log or answer contains a value, nor words of the cluster about a write of one.
    """

    def __init__(self, context: OperationContext) -> None:
        self._client = context.client
        self._now = context.now
        self._rng = context.rng
        self._namespaces = context.options.namespaces
        self._seconds = context.options.attempt_seconds
        self._turns = KeyedLock[str]()

    async def store(self, request: CreateSecret) -> tuple[ListedSecret, bool]:
        """Create the secret or replace all its values; return it, and whether its name is new."""
        name, tenant = request.name, request.tenant
        async with self._bounded(f"storing secret {name}"), self._turns.of(tenant):
            is_new = False
            while True:
                secret, was_new = await self._list(request)
                is_new = is_new or was_new
                try:
                    await self._write(request)
                except (ApiError, StrictError) as error:
                    if was_new and _is_refusal(error):
                        await self._withdraw(request, secret)
                    raise
                # Another replica may have deleted the secret between the two writes.
                if name in (await self._index(tenant)).listed:
                    return secret, is_new

    async def of_tenant(self, tenant: str) -> Mapping[str, ListedSecret]:
        """Return the tenant's secrets by name, in the order of the names."""
        async with self._bounded("listing secrets"):
            return dict(sorted((await self._index(tenant)).listed.items()))

    async def delete(self, name: str, tenant: str) -> None:
        """Delete the secret, also if units use it: a leaked value has to go at once.

        It is not found if its name is not listed and no Secret is left of it.
        """
        async with self._bounded(f"deletion of secret {name}"), self._turns.of(tenant):
            was_found = False
            while True:
                index = await self._index(tenant)
                is_listed = name in index.listed
                if was_found and not is_listed:
                    return
                if is_listed or is_dns_label(name):
                    with suppress(NotFoundError):
                        await self._client.delete(SECRET_METADATA, self._secret_key(name, tenant))
                        was_found = True
                if is_listed and await self._put(tenant, {name: None}, index):
                    return
                # A store may have listed the name meanwhile: then its Secret goes with the name.
                if not is_listed and not was_found:
                    raise SecretNotFoundError(f"secret {name} does not exist")

    async def _list(self, request: CreateSecret) -> tuple[ListedSecret, bool]:
        """Write the name to the index; return the entry, and whether the name is new."""
        while True:
            index = await self._index(request.tenant)
            known = index.listed.get(request.name)
            if known is not None and known.type != request.type:
                raise NameTakenError(
                    f"secret {request.name} is of type {known.type}, which cannot change: "
                    "delete it first"
                )
            if known is None and len(index.listed) >= MOST_SECRETS:
                raise TooManySecretsError(
                    f"there are {MOST_SECRETS} secrets, which is the most: delete one first"
                )
            now = self._now().replace(microsecond=0)
            created_at = known.createdAt if known else now
            entry = ListedSecret(
                type=request.type,
                createdAt=created_at,
                updatedAt=now,
                nonce=self._rng.randbytes(NONCE_BYTES).hex(),
            )
            text = codec.encode(codec.to_json(entry)).decode()
            if await self._put(request.tenant, {request.name: text}, index):
                return entry, known is None

    async def _withdraw(self, request: CreateSecret, entry: ListedSecret) -> None:
        """Remove the name of a refused Secret, unless another store has listed it meanwhile."""
        with suppress(KubeError):
            while (index := await self._index(request.tenant)).listed.get(request.name) == entry:
                if await self._put(request.tenant, {request.name: None}, index):
                    return

    async def _index(self, tenant: str) -> _Index:
        try:
            found = await self._client.get(CONFIG_MAPS, self._index_key(tenant))
        except NotFoundError:
            return _Index(listed={}, version="")
        listed = {name: _entry_of(text) for name, text in found.data.items()}
        return _Index(listed=listed, version=found.metadata.resourceVersion)

    async def _put(self, tenant: str, entries: JsonObject, index: _Index) -> bool:
        """Change the index; return whether it was still as it was read."""
        key = self._index_key(tenant)
        if not index.version:
            body = {**_body(key, CONFIG_MAPS.kind, tenant), "data": entries}
            try:
                await self._client.create(CONFIG_MAPS, body, namespace=key.namespace)
            except AlreadyExistsError:
                return False
            return True
        change: JsonObject = {"data": entries}
        try:
            await self._client.patch(CONFIG_MAPS, key, change, resource_version=index.version)
        except (ConflictError, NotFoundError):
            return False
        return True

    async def _write(self, request: CreateSecret) -> None:
        key = self._secret_key(request.name, request.tenant)
        kind = KUBERNETES_TYPES[SecretType(request.type)]
        data = encoded_data(request)
        body = {**_body(key, SECRET_METADATA.kind, request.tenant), "type": kind, "data": data}
        # A merge patch would keep the keys that the request no longer has.
        change: JsonObject = {"type": kind, "data": {"$patch": "replace", **data}}
        while True:
            with _in_our_words(key):
                try:
                    await self._client.create(SECRET_METADATA, body, namespace=key.namespace)
                    return
                except AlreadyExistsError:
                    pass
                with suppress(NotFoundError):
                    await self._client.patch(
                        SECRET_METADATA, key, change, content_type=STRATEGIC_PATCH
                    )
                    return

    def _index_key(self, tenant: str) -> Key:
        return Key(self._namespaces.system, f"secrets-{digest_of(tenant)}")

    def _secret_key(self, name: str, tenant: str) -> Key:
        return Key(self._namespaces.instance, secret_name_of(tenant, name))

    def _bounded(self, what: str) -> AbstractAsyncContextManager[None]:
        return bounded(what, self._seconds)


def encoded_data(request: CreateSecret) -> dict[str, str]:
    """Return the Secret's data, in base64 as Kubernetes has it."""
    texts = dict(request.data)
    if request.registry is not None:
        texts[DOCKER_CONFIG] = _docker_config(request.registry)
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    return {**encoded, **request.binaryData}


def _docker_config(login: RegistryLogin) -> str:
    pair = base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
    entry: JsonObject = {"username": login.username, "password": login.password, "auth": pair}
    return codec.encode({"auths": {login.server: entry}}).decode()


def _body(key: Key, kind: str, tenant: str) -> JsonObject:
    marks = {labels.APP_NAME: SECRETS_APP, labels.MANAGED_BY: labels.MANAGER}
    of_tenant = {labels.TENANT: tenant} if tenant else {}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": key.name, "labels": {**marks, **of_tenant}},
    }


def _entry_of(text: str) -> ListedSecret:
    """Return the entry; one that was edited by hand is still listed, so that it can be deleted."""
    try:
        return codec.decode(text.encode(), ListedSecret)
    except codec.MalformedObjectError:
        never = datetime.fromtimestamp(0, UTC)
        return ListedSecret(createdAt=never, updatedAt=never)


def _is_refusal(error: ApiError | StrictError) -> bool:
    """Return whether the cluster has certainly not written the Secret."""
    return isinstance(error, StrictError) or error.status in REFUSAL_STATUSES


@contextmanager
def _in_our_words(key: Key) -> Iterator[None]:
    """Replace the cluster's words about a write of a Secret, as they may quote its values."""
    try:
        yield
    except (InvalidError, BadRequestError):
        raise StrictError((_REJECTED,)) from None
    except ApiError as error:
        words = f"writing Secret {key}: {error.status} {error.reason}"
        known = (error.status, error.reason, error.retry_after_seconds)
        raise type(error)(words, *known) from None
    except (MalformedAnswerError, OutcomeUnknownError) as error:
        raise type(error)(f"writing Secret {key}: its outcome is unknown") from None
