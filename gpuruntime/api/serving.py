"""How the application is served: by aiohttp, but for what is no HTTP request.

Such bytes reach no middleware: aiohttp answers them by itself, as text and with a traceback in
the log. Here they are answered like any other bad request. Bodies stay as they were sent, since
none of a compressed one is ever wanted.
"""

import asyncio
from random import Random
from typing import Any

import structlog
from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from gpuruntime.api.errors import MalformedRequestError
from gpuruntime.api.middleware import MARKS, REQUEST_ID, new_request_id
from gpuruntime.api.problems import problem_answer

log = structlog.get_logger()


class Runner(web.AppRunner):
    def __init__(self, app: web.Application, *, rng: Random, **options: Any) -> None:
        super().__init__(app, handle_signals=False, access_log=None, **options)
        self._rng = rng

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(
            made.request_handler,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            rng=self._rng,
        )


class _Server(web.Server):
    def __init__(self, *arguments: Any, rng: Random, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._rng = rng
        self._options: dict[str, Any] = {"access_log": None, "auto_decompress": False}

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=asyncio.get_running_loop(), rng=self._rng, **self._options)


class _Connection(web.RequestHandler):
    __slots__ = ("_rng",)

    def __init__(self, *arguments: Any, rng: Random, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._rng = rng

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The connection ends: nobody knows where the next request would begin."""
        if not isinstance(exc, HttpProcessingError) or request.writer.output_size:
            return super().handle_error(request, status, exc, message)
        words = _words(exc)
        log.debug("request is not HTTP", peer=request.remote, reason=words)
        answer = problem_answer(MalformedRequestError(words), hdrs.METH_ANY)
        answer.headers.update({**MARKS, REQUEST_ID: new_request_id(self._rng)})
        answer.force_close()
        return answer


def _words(error: HttpProcessingError) -> str:
    """The first line says what is wrong; the others show the bytes."""
    if isinstance(error, LineTooLong):
        return "the request line or a header is longer than 8190 bytes: send less"
    reason = error.message.strip().splitlines()[0].rstrip(":.")
    return f"the bytes are no HTTP request: {reason[:1].lower()}{reason[1:]}"
