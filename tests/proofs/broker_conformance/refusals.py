"""JetStream's errors, with the codes and texts of the real broker."""

from typing import Any


class RefusalError(Exception):
    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.text = text

    @property
    def body(self) -> dict[str, Any]:
        return {
            "error": {"code": self.status, "err_code": self.code, "description": self.text},
        }


def no_stream() -> RefusalError:
    return RefusalError(404, 10059, "stream not found")


def stream_exists() -> RefusalError:
    text = "stream name already in use with a different configuration"
    return RefusalError(400, 10058, text)


def no_consumer() -> RefusalError:
    return RefusalError(404, 10014, "consumer not found")


def consumer_exists() -> RefusalError:
    return RefusalError(400, 10148, "consumer already exists")


def consumer_missing() -> RefusalError:
    return RefusalError(400, 10149, "consumer does not exist")


def no_message() -> RefusalError:
    return RefusalError(404, 10037, "no message found")


def not_deleted(sequence: int) -> RefusalError:
    return RefusalError(500, 10057, f"message {sequence} is not there")


def wrong_last_sequence(sequence: int) -> RefusalError:
    return RefusalError(400, 10071, f"wrong last sequence: {sequence}")


def full(what: str) -> RefusalError:
    return RefusalError(503, 10077, f"maximum {what} exceeded")
