"""Options of the client: the API's address, the caller's token, and the limits of a request."""

import attrs

DEFAULT_SERVER = "http://127.0.0.1:8080"


@attrs.frozen(kw_only=True, slots=True)
class Options:
    """The options of one client. Its token file is read for every request, so a renewed token
    works.

    `timeout_seconds` bounds one attempt. It is longer than the API's own deadline, so that the API
    answers first and says what it knows. `patience_seconds` and `most_attempts` bound a request
    with all its retries.
    """

    server: str = DEFAULT_SERVER
    token: str = attrs.field(default="", repr=False)
    token_file: str = ""
    ca_file: str = ""
    timeout_seconds: float = 75.0
    connect_seconds: float = 10.0
    patience_seconds: float = 120.0
    most_attempts: int = 6
    # The limit of an answer that is read whole: a page of the largest possible units fits.
    most_bytes: int = 64 * 1024 * 1024
