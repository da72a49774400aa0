"""Defects of SSH; a test of the gateway's SSH has to find each of them."""

from typing import Final

from tests.proofs.simulation.mutations.mutation import Mutation

_TESTS: Final = "tests/rooms/gateway/ssh"

SSH: Final = (
    Mutation(
        "a forward of SSH reaches any host",
        "gpuruntime.gateway.ssh.forwards",
        "    if host.lower() not in LOOPBACK:\n",
        "    if False:\n",
        f"{_TESTS}/test_forwards.py::test_only_the_loopback_of_the_unit_is_forwarded_to",
    ),
    Mutation(
        "a key of SSH counts that the unit does not list",
        "gpuruntime.gateway.ssh.logins",
        "    return any(key == blob_of(line) for line in unit.spec.access.sshKeys)\n",
        "    return True\n",
        f"{_TESTS}/test_logins.py::test_a_key_counts_only_for_a_unit_that_lists_it",
    ),
    Mutation(
        "an SSH connection outlives its ticket",
        "gpuruntime.gateway.ssh.server",
        "            await asyncio.wait((closed, idle, visit.ended), ",
        "            await asyncio.wait((closed, idle), ",
        f"{_TESTS}/test_server.py::test_a_connection_ends_after_its_ticket_and_the_grace",
    ),
    Mutation(
        "SSH within a WebSocket misses what is revoked during its login",
        "gpuruntime.gateway.ssh.server",
        "if visit is not None and admitted is known",
        "if False",
        f"{_TESTS}/test_web_socket.py::test_a_revocation_during_the_login_ends_the_connection",
    ),
    Mutation(
        "a file that was not written is reported good",
        "gpuruntime.gateway.ssh.shell_file",
        "        if code != 0:\n            return error_of(code, self._words)\n",
        "        if code is None:\n            return error_of(code, self._words)\n",
        f"{_TESTS}/test_shell_file.py::test_a_write_that_did_not_reach_the_file_is_no_success",
    ),
)
