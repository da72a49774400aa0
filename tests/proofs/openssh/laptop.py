"""A user's machine: OpenSSH's programs with a folder of their own, and a ticket as password."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import attrs

from gpuruntime.models.views.tickets import TicketView

PROGRAM_SECONDS: Final = 60.0


@attrs.frozen(kw_only=True, slots=True)
class Ended:
    code: int | None
    output: bytes
    errors: str


class Laptop:
    """The gateway's host key is known from the ticket; the programs trust no other."""

    def __init__(
        self, folder: Path, view: TicketView, server: str, *, token_file: str = ""
    ) -> None:
        assert view.ssh is not None
        self.folder = folder
        self._config = folder / "ssh_config"
        ticket = folder / "ask"
        ticket.write_text(f"#!/bin/sh\necho '{view.ticket}'\n")
        ticket.chmod(0o700)
        known = folder / "known_hosts"
        known.write_text("".join(f"unit {key}\n" for key in view.ssh.hostKeys))
        common = (
            f"User {view.ssh.user}\nHostKeyAlias unit\nUserKnownHostsFile {known}\n"
            "GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\nLogLevel ERROR\n"
            "IdentityAgent none\nControlPath none\n"
        )
        carrying = f"{sys.executable} -m gpuruntime units ssh --stdio {view.unit.name}"
        carrying += f" --server {server}" + (f" --token-file {token_file}" if token_file else "")
        self._config.write_text(
            f"Host unit\nHostName 127.0.0.1\nPort {view.ssh.port}\n{common}"
            "PubkeyAuthentication no\nNumberOfPasswordPrompts 1\n"
            f"Host keyed\nHostName 127.0.0.1\nPort {view.ssh.port}\n{common}"
            f"IdentityFile {folder / 'id'}\nIdentitiesOnly yes\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\n"
            f"Host carried\nProxyCommand {carrying}\n{common}"
            "PasswordAuthentication no\nPubkeyAuthentication no\nKbdInteractiveAuthentication no\n"
        )
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "SSH_ASKPASS": str(ticket),
            "SSH_ASKPASS_REQUIRE": "force",
            "GIT_SSH_COMMAND": f"ssh -F {self._config}",
        }

    @staticmethod
    async def generate_key(folder: Path) -> str:
        """Write a key of the user to the folder, and return its public line."""
        process = await asyncio.create_subprocess_exec(
            "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "id")
        )
        assert await process.wait() == 0
        return (folder / "id.pub").read_text().strip()

    async def run(self, *arguments: str, given: bytes = b"") -> Ended:
        """Run a program to its end."""
        async with asyncio.timeout(PROGRAM_SECONDS):
            process = await self.start(*arguments)
            output, errors = await process.communicate(given)
        return Ended(code=process.returncode, output=output, errors=errors.decode())

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environment,
            cwd=self.folder,
            start_new_session=True,
        )

    async def ssh(self, *arguments: str, given: bytes = b"") -> Ended:
        return await self.run("ssh", "-F", str(self._config), *arguments, given=given)

    async def start_ssh(self, *arguments: str) -> asyncio.subprocess.Process:
        return await self.start("ssh", "-F", str(self._config), *arguments)

    async def scp(self, *arguments: str) -> Ended:
        return await self.run("scp", "-F", str(self._config), *arguments)

    async def sftp(self, *commands: str, host: str = "keyed") -> Ended:
        given = "".join(f"{each}\n" for each in commands).encode()
        # Batches ask for no password, unless they are told to.
        flags = ("-o", "BatchMode no", "-b", "-")
        return await self.run("sftp", "-F", str(self._config), *flags, host, given=given)
