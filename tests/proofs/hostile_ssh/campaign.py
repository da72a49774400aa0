"""A campaign: rounds of hostile input of every kind at one server, which serves on beside it."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

import attrs
from structlog.testing import capture_logs

from tests.eventually import eventually
from tests.proofs.hostile_ssh.attacks import CANARY, KINDS, LINES, REFUSED, Attack, Kind
from tests.rooms.gateway.ssh.ssh_world import OPTIONS, SshWorld, ssh_world
from tests.rooms.gateway.visitors import unit

_LOGINS: Final = 128


@attrs.frozen
class Findings:
    """How often each kind of input had each outcome, and what went wrong."""

    counts: Counter[tuple[str, str]]
    faults: list[str]

    @property
    def table(self) -> str:
        return "".join(
            f"{kind:12} {outcome:10} {count}\n"
            for (kind, outcome), count in sorted(self.counts.items())
        )


async def run_campaign(home: Path, rounds: int, seed: int) -> Findings:
    """Try every kind once in each round."""
    rng = Random(seed)
    found = Findings(Counter(), [])
    options = attrs.evolve(OPTIONS, prefers_sftp_server=False, most_logins=_LOGINS)
    with capture_logs() as logs:
        async with (
            ssh_world(home, unit(sshKeys=LINES), unit("other"), options=options) as world,
            await world.login() as connection,
        ):
            attack = Attack(rng=rng, world=world, connection=connection)
            for number in range(rounds):
                for kind, allowed in KINDS.items():
                    fault = await _tried(kind, allowed, attack, found.counts)
                    if fault:
                        found.faults.append(f"round {number}: {fault}")
                errors = [each for each in logs if each["log_level"] in ("error", "critical")]
                found.faults.extend(f"round {number}: {each}" for each in errors)
                logs.clear()
            found.faults.extend(await _left_behind(world))
    return found


async def _tried(
    kind: Kind, allowed: frozenset[str], attack: Attack, counts: Counter[tuple[str, str]]
) -> str:
    """Return the fault that the input has shown, or nothing."""
    world, name = attack.world, kind.__name__
    executed, dialled = len(world.container.executed), len(world.reach.dialled)
    try:
        outcome = await kind(attack)
    except Exception as error:  # noqa: BLE001 - whatever the input caused is a finding
        counts[name, "fault"] += 1
        return f"{name}: {error!r}"
    counts[name, outcome] += 1
    if outcome not in allowed:
        return f"{name}: the input was {outcome}"
    if allowed == {REFUSED} and len(world.container.executed) > executed:
        return f"{name}: the refused input ran a program"
    if len(world.reach.dialled) > dialled:
        return f"{name}: the input reached a port"
    return ""


async def _left_behind(world: SshWorld) -> list[str]:
    faults = []
    connection = await world.login()
    listed = await connection.run(f"find . -name '{CANARY}'")
    if listed.stdout:
        faults.append("a shell took a word of a caller for a command")
    connection.close()
    await connection.wait_closed()
    if listed.exit_status != 0:
        faults.append("a good login is served no more")
    try:
        await eventually(lambda: len(world.connections), lambda count: count == 1)
    except AssertionError as error:
        faults.append(f"one connection is open, and others are counted: {error}")
    return faults
