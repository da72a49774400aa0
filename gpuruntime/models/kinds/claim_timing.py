"""Times of a claim in seconds, whose order keeps a claim from being freed while it is in use.

A create is sent within CREATE_BOUND_SECONDS of its claim, and may land for REQUEST_LIFE_SECONDS
more. Both together must not exceed GRACE_SECONDS. Otherwise a unit could name a stock unit that
the manager has freed meanwhile. The test of this module holds each inequality with its reason.
"""

from typing import Final

# A request may reach the API server and take effect within this time after it was sent, even if
# its sender is gone. The API server itself ends a request after 60 s by default.
REQUEST_LIFE_SECONDS: Final = 60.0
# An attempt sends the create within this time after its claim was sent, or not at all.
CREATE_BOUND_SECONDS: Final = 30.0
# An attempt of an operation takes no longer than this.
ATTEMPT_SECONDS: Final = 60.0
# The leading manager frees a claim that it has doubted for this long.
GRACE_SECONDS: Final = 90.0
# The audit reports a claim that no unit uses after this time. A new leader starts the grace again.
DOUBT_SECONDS: Final = 180.0
# A finished operation is remembered for at least this long. Otherwise a late create could land
# after its tombstone was removed, or be noticed only then.
SHORTEST_RETENTION_SECONDS: Final = 180.0
