"""Defects of the gateway: a caller who should not reach a unit, or words that reach the wrong."""

from typing import Final

from tests.proofs.simulation.mutations.mutation import Mutation

ROOM: Final = "gpuruntime.gateway"
TOKENS: Final = "gpuruntime.tickets.tokens"
TESTS: Final = "tests/rooms/gateway/test_"
REVOCATION: Final = (
    "tests/rooms/roles/test_gateway_revocation.py"
    "::test_open_connections_of_every_kind_end_within_a_minute"
)
GATEWAY: Final = (
    Mutation(
        "a ticket counts for a later unit of the name",
        TOKENS,
        "    if claims.uid != target.uid:\n        yield Refusal.UNIT\n",
        "",
        "tests/rooms/tickets/test_tokens.py",
    ),
    Mutation(
        "the gate compares no uid",
        f"{ROOM}.gate",
        "uid=unit.metadata.uid,\n        generation",
        "uid=claims.uid,\n        generation",
        f"{TESTS}gate.py",
    ),
    Mutation(
        "a revoked ticket counts on",
        TOKENS,
        "claims.gen < target.generation",
        "claims.gen < 0",
        f"{TESTS}gate.py",
    ),
    Mutation(
        "a raised generation ends no open connection",
        f"{ROOM}.connections",
        "unit.spec.access.generation > visitor.claims.gen",
        "unit.spec.access.generation < visitor.claims.gen",
        f"{TESTS}connections.py",
    ),
    Mutation(
        "a suspension ends no open connection",
        f"{ROOM}.connections",
        "return End.SUSPENDED if unit.spec.suspended else None",
        "return None",
        REVOCATION,
    ),
    Mutation(
        "a unit that was created again has the connections of before",
        f"{ROOM}.connections",
        "if old is not None and (new is None or new.metadata.uid != old.metadata.uid):",
        "if old is not None and new is None:",
        f"{TESTS}connections.py",
    ),
    Mutation(
        "the gateway watches units in long windows",
        f"{ROOM}.freshness",
        "WINDOW_SECONDS: Final = (20, 25)",
        "WINDOW_SECONDS: Final = (200, 250)",
        f"{TESTS}freshness.py",
    ),
    Mutation(
        "a session's token is accepted as a ticket",
        f"{ROOM}.presentation",
        "return Presented(kind=TokenType.SESSION, token=session)",
        "return Presented(kind=TokenType.TICKET, token=session)",
        f"{TESTS}app.py",
    ),
    Mutation(
        "a ticket without a scheme is accepted",
        f"{ROOM}.presentation",
        'if value.lower().startswith(_BEARER) else ""',
        "if value.lower().startswith(_BEARER) else value",
        f"{TESTS}pairs.py",
    ),
    Mutation(
        "the cookie of plain HTTP is accepted behind TLS",
        f"{ROOM}.presentation",
        "if key == name), ",
        "if key in OUR_COOKIES), ",
        f"{TESTS}pairs.py",
    ),
    Mutation(
        "a refusal tells whether another tenant's unit exists",
        f"{ROOM}.gate",
        "    if not names_it:\n",
        "    if not names_it and unit is not None:\n",
        f"{TESTS}pairs.py",
    ),
    Mutation(
        "an entry is accepted whatever its type",
        f"{ROOM}.sessions",
        "Presented(kind=TokenType.ENTRY, token",
        "Presented(kind=TokenType.TICKET, token",
        f"{TESTS}sessions.py",
    ),
    Mutation(
        "the first key verifies tokens of unknown keys",
        "gpuruntime.tickets.keys",
        "return next(found, None)",
        "return next(found, self.keys[0])",
        "tests/rooms/tickets/test_tokens.py",
    ),
    Mutation(
        "an open connection outlives its ticket",
        f"{ROOM}.connections",
        "call_later(delay, connection.end, End.EXPIRED)",
        "call_later(delay + 1e6, connection.end, End.EXPIRED)",
        f"{TESTS}connections.py",
    ),
    Mutation(
        "a WebSocket whose caller takes nothing outlives a revocation",
        f"{ROOM}.splice",
        "await first_of(request.writer.drain(), _ending(connection))",
        "await request.writer.drain()",
        f"{TESTS}splice.py::test_a_revocation_ends_a_web_socket_whose_caller_takes_nothing",
    ),
    Mutation(
        "a silent watch is trusted",
        f"{ROOM}.gate",
        "watch_age_seconds > UNKNOWN_AFTER_SECONDS",
        "watch_age_seconds > 10 * UNKNOWN_AFTER_SECONDS",
        f"{TESTS}gate.py",
    ),
    Mutation(
        "the probe alone says how old the mirror is",
        f"{ROOM}.freshness",
        "return max(loop_time() - self._probed_at, self._watch_silence())",
        "return loop_time() - self._probed_at",
        f"{TESTS}freshness.py",
    ),
    Mutation(
        "the unit receives the ticket",
        f"{ROOM}.presentation",
        "return None if is_ours(credentials) or (token and credentials == token) else value",
        "return value",
        f"{TESTS}app.py",
    ),
    Mutation(
        "headers that Connection names are sent on",
        "gpuruntime.relay.headers",
        "not in dropped | named",
        "not in dropped",
        f"{TESTS}app.py",
    ),
    Mutation(
        "a unit sets cookies for its siblings",
        f"{ROOM}.headers",
        '.strip().lower() != "domain")',
        '.strip().lower() != "")',
        f"{TESTS}app.py",
    ),
    Mutation(
        "a page of another origin opens WebSockets",
        f"{ROOM}.app",
        "is_upgrade=_is_web_socket(request)",
        "is_upgrade=False",
        f"{TESTS}splice.py",
    ),
    Mutation(
        "a port that the unit does not declare is reached",
        f"{ROOM}.gate",
        "if declared is not None or wanted.only_declared:",
        "if declared is not None:",
        f"{TESTS}app.py",
    ),
    Mutation(
        "pings count as activity",
        f"{ROOM}.splice",
        "if opcode not in (0x88, 0x89, 0x8A)",
        "if opcode not in ()",
        f"{TESTS}splice.py",
    ),
    Mutation(
        "answers to a unit's pings count as activity",
        f"{ROOM}.splice",
        "if not are_control_frames(data):",
        "if data:",
        f"{TESTS}splice.py",
    ),
    Mutation(
        "a unit's messages count as activity",
        f"{ROOM}.splice",
        "splice.to_caller += len(data)\n",
        "splice.to_caller += len(data)\n        splice.connection.touch()\n",
        f"{TESTS}splice.py",
    ),
    Mutation(
        "a unit's answer counts as activity",
        f"{ROOM}.exchange",
        "taken=self._take, moved=self._timeouts.moved",
        "taken=self._take, moved=self._received",
        f"{TESTS}splice.py",
    ),
    Mutation(
        "a suspended unit is resumed against its will",
        f"{ROOM}.wake",
        "        demand_reachable(visitor.unit)\n"
        "        if is_awake(visitor.unit) or not visitor.unit.spec.access.wake:\n",
        "        if is_awake(visitor.unit) or not visitor.unit.spec.suspended:\n",
        f"{TESTS}wake.py",
    ),
    Mutation(
        "a body is taken while the unit wakes",
        f"{ROOM}.app",
        ", expect_handler=_ask_for_no_body",
        "",
        f"{TESTS}wake.py",
    ),
)
