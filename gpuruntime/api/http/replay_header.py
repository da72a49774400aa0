"""How an answer says whether anything was done for it, or the operation had been done before."""

from typing import Final

_HEADER: Final = "Idempotent-Replay"
REPLAYED: Final = {_HEADER: "true"}
# Where both have one status.
NEW: Final = {_HEADER: "false"}
MEANING_OF_REPLAY: Final = {_HEADER: "`true`: the operation had been done before."}
