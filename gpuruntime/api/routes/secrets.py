"""The routes of secrets: store one, list their names, delete one. No route reads a value."""

from typing import Final

import attrs

from gpuruntime.api.auth.access import SECRETS as RESOURCE
from gpuruntime.api.auth.access import Access, Verb
from gpuruntime.api.auth.tenancy import asked_tenant, asked_tenants, owned
from gpuruntime.api.http.routing import (
    READ,
    WRITE,
    Answer,
    Body,
    Call,
    Form,
    NoQuery,
    Reply,
    Route,
)
from gpuruntime.api.openapi import examples
from gpuruntime.api.views.pages import (
    DEFAULT_LIMIT,
    Cursor,
    Limit,
    cursor_after,
    position_of,
)
from gpuruntime.models.definitions.texts import LabelValue
from gpuruntime.models.requests.secrets import CreateSecret
from gpuruntime.models.views.secrets import SecretView
from gpuruntime.operations.errors import SecretNotFoundError
from gpuruntime.operations.requests import parse_create_secret
from gpuruntime.operations.secrets import ListedSecret, Secrets

SECRETS: Final = "/api/v1/secrets"
_TAG: Final = "secrets"


@attrs.frozen(kw_only=True, slots=True)
class SecretQuery:
    """The tenant whose secret it is; by default the caller's own, or none for an operator."""

    tenant: LabelValue = ""


@attrs.frozen(kw_only=True, slots=True)
class SecretsQuery:
    """Secrets of one tenant; by default of the caller's own, or without one for an operator."""

    tenant: LabelValue = ""
    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = ""


def secret_routes(secrets: Secrets) -> tuple[Route, ...]:
    handlers = _SecretHandlers(secrets)
    return (
        Route(
            method="POST",
            path=SECRETS,
            name="createSecret",
            access=Access(verb=Verb.CREATE, resource=RESOURCE),
            handler=handlers.store,
            summary="Store a secret, or replace all its values",
            body=Body(
                model=CreateSecret, parse=parse_create_secret, example=examples.CREATE_SECRET
            ),
            answers=(
                Answer(status=201, description="The secret was created.", model=SecretView),
                Answer(
                    status=200,
                    description="The secret existed: it has these values, and no others.",
                    model=SecretView,
                ),
            ),
            errors=(*WRITE, "name_taken", "too_many_secrets"),
            tag=_TAG,
        ),
        Route(
            method="GET",
            path=SECRETS,
            name="listSecrets",
            access=Access(verb=Verb.LIST, resource=RESOURCE),
            handler=handlers.list,
            summary="List the names of secrets",
            query=SecretsQuery,
            answers=(
                Answer(
                    status=200,
                    description="A page of secrets, without their values.",
                    form=Form.PAGE,
                    model=SecretView,
                ),
            ),
            errors=READ,
            tag=_TAG,
        ),
        Route(
            method="DELETE",
            path=f"{SECRETS}/{{name}}",
            name="deleteSecret",
            access=Access(verb=Verb.DELETE, resource=RESOURCE),
            handler=handlers.delete,
            summary="Delete a secret; running Pods keep what they have of it",
            query=SecretQuery,
            answers=(Answer(status=204, description="It is deleted.", form=Form.EMPTY),),
            errors=(*READ, "secret_not_found"),
            tag=_TAG,
        ),
    )


class _SecretHandlers:
    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def store(self, call: Call[NoQuery, CreateSecret]) -> Reply:
        request = owned(call.body, call.principal)
        secret, is_new = await self._secrets.store(request)
        view = _view(request.name, request.tenant, secret)
        return Reply(status=201 if is_new else 200, data=view)

    async def list(self, call: Call[SecretsQuery, None]) -> Reply:
        query = call.query
        tenants = asked_tenants(query.tenant, call.principal)
        after = position_of(query.cursor, parts=2) if query.cursor else ("", "")
        views = [
            _view(name, tenant, secret)
            for tenant in sorted(tenants if tenants is not None else {query.tenant})
            if tenant >= after[0]
            for name, secret in (await self._secrets.of_tenant(tenant)).items()
            if (tenant, name) > after
        ]
        page = views[: query.limit]
        is_last = len(views) == len(page)
        return Reply(
            data=page, next="" if is_last else cursor_after(page[-1].tenant, page[-1].name)
        )

    async def delete(self, call: Call[SecretQuery, None]) -> Reply:
        name, tenant = call.path("name"), asked_tenant(call.query.tenant, call.principal)
        if tenant is None:
            raise SecretNotFoundError(f"secret {name} does not exist")
        await self._secrets.delete(name, tenant)
        return Reply(status=204)


def _view(name: str, tenant: str, secret: ListedSecret) -> SecretView:
    return SecretView(
        name=name,
        tenant=tenant,
        type=secret.type,
        createdAt=secret.createdAt,
        updatedAt=secret.updatedAt,
    )
