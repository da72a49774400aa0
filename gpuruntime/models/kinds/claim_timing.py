"""Times of a claim in seconds, whose order keeps a claim from being freed while it is in use.

A create is sent within CREATE_BOUND_SECONDS of its claim. The API server may still carry it out
until the life of a request is over. Both together must not exceed GRACE_SECONDS. Otherwise a unit
could name a stock unit that the manager has freed meanwhile.
"""

from typing import Final

# An attempt sends the create within this time after its claim was sent, or not at all.
CREATE_BOUND_SECONDS: Final = 30.0
# An attempt of an operation takes no longer than this.
ATTEMPT_SECONDS: Final = 60.0
# The leading manager frees a claim that it has doubted for this long.
GRACE_SECONDS: Final = 90.0
