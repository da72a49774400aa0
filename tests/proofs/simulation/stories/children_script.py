"""The stories of a unit's children: edited by hand, and created under a name that was in use."""

from enum import StrEnum
from random import Random
from typing import Final

import attrs

# The share of scripts with each of these stories.
SHARE: Final = 0.4
MOST_EDITS: Final = 4
LONGEST_PAUSE_SECONDS: Final = 20.0


class ChildEdit(StrEnum):
    """An edit of a unit's child with kubectl."""

    SERVICE_SELECTOR = "a key is added to the selector of its Service"
    POLICY_SELECTOR = "a key is added to the selector of its NetworkPolicy"
    POLICY_RULES = "its NetworkPolicy lets everybody in"
    OPEN_TEMPLATE = "its Pods share the network and the processes of their host"
    OTHER_UNIT = "the labels of its Deployment name another unit"
    NO_UNIT = "the labels of its Deployment name no unit"
    NO_MANAGER = "its Deployment loses the label of the manager"
    NO_OWNER = "its Deployment loses its owner"


@attrs.frozen(kw_only=True, slots=True)
class EditedStory:
    """A unit whose children are edited, with the pause before each edit."""

    begins_at: float
    name: str
    edits: tuple[tuple[float, ChildEdit], ...]


@attrs.frozen(kw_only=True, slots=True)
class RemadeStory:
    """A unit that is deleted and created again while a Pod of the earlier one terminates."""

    begins_at: float
    name: str


def edited(rng: Random, moment: float) -> tuple[EditedStory, ...]:
    if rng.random() >= SHARE:
        return ()
    chosen = rng.sample(tuple(ChildEdit), rng.randint(2, MOST_EDITS))
    edits = tuple((rng.uniform(0.0, LONGEST_PAUSE_SECONDS), edit) for edit in chosen)
    return (EditedStory(begins_at=moment, name="edited", edits=edits),)


def remade(rng: Random, moment: float) -> tuple[RemadeStory, ...]:
    return (RemadeStory(begins_at=moment, name="remade"),) if rng.random() < SHARE else ()
