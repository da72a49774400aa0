"""Verbs of secrets; no message contains a value."""

from gpuruntime.commands import bodies
from gpuruntime.commands.exit_codes import ExitCode
from gpuruntime.commands.session import Session
from gpuruntime.models.views.secrets import SecretView


async def list_secrets(session: Session) -> None:
    tenant = session.options.tenant or ""
    await session.print_list(
        SecretView, lambda: session.client.secrets.list(tenant), lambda view: view.name
    )


async def create(session: Session) -> None:
    asked = session.options
    registry = bodies.registry_of(asked.registry, asked.username, asked.password_file)
    flags = {
        "name": asked.name,
        "type": "registry" if registry else None,
        "registry": registry,
        "tenant": asked.tenant,
        **bodies.secret_data_of(asked.from_literal, asked.from_file),
    }
    document = bodies.body_of(asked.file, flags)
    session.print_one((await session.client.secrets.create(document)).data)


async def delete(session: Session) -> ExitCode:
    tenant = session.options.tenant or ""

    async def delete_one(name: str) -> None:
        await session.client.secrets.delete(name, tenant)
        session.terminal.report(f"secret {name} is deleted")

    return await session.each(session.options.names, delete_one)
