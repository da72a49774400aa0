"""A few rounds of hostile input: each kind has only the outcomes that it may have."""

from pathlib import Path

from tests.proofs.hostile_ssh.attacks import KINDS
from tests.proofs.hostile_ssh.campaign import run_campaign

ROUNDS = 6


async def test_hostile_input_of_every_kind_is_refused_or_harmless(tmp_path: Path) -> None:
    found = await run_campaign(tmp_path, ROUNDS, seed=7)
    assert found.faults == []
    assert found.counts.total() == ROUNDS * len(KINDS)
