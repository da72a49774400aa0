"""Where the API is, who asks, and how patient the client is."""

import attrs

DEFAULT_SERVER = "http://127.0.0.1:8080"


@attrs.frozen(kw_only=True, slots=True)
class Options:
    """A token file is read again for every request, so that a renewed token counts at once.

    `timeout_seconds` bounds one attempt, and is longer than the API's own deadline, so that the
    API is the one that says what it knows. `patience_seconds` and `most_attempts` bound a request
    with all its repetitions.
    """

    server: str = DEFAULT_SERVER
    token: str = attrs.field(default="", repr=False)
    token_file: str = ""
    ca_file: str = ""
    timeout_seconds: float = 75.0
    connect_seconds: float = 10.0
    patience_seconds: float = 120.0
    most_attempts: int = 6
    # Of one answer that is read as a whole: a page of the largest units there can be.
    most_bytes: int = 64 * 1024 * 1024
