"""Defects of tickets: a token that counts for what it was not signed for."""

from typing import Final

from tests.proofs.simulation.mutations.mutation import Mutation

TOKENS: Final = "gpuruntime.tickets.tokens"
OF_TOKENS: Final = "tests/rooms/tickets/test_tokens.py"
OF_ROUTES: Final = "tests/rooms/api/routes/test_tickets.py"
TICKETS: Final = (
    Mutation(
        "a ticket counts for a later unit of its name",
        TOKENS,
        "if claims.uid != target.uid:",
        "if False:",
        f"{OF_TOKENS}::test_claims_reach_their_target_alone",
    ),
    Mutation(
        "a revoked ticket counts",
        TOKENS,
        "if claims.gen < target.generation:",
        "if False:",
        f"{OF_TOKENS}::test_claims_reach_their_target_alone",
    ),
    Mutation(
        "a session counts as a ticket",
        TOKENS,
        '"typ":"{kind}"}}',
        '"typ":"gpuruntime"}}',
        f"{OF_TOKENS}::test_a_token_counts_for_its_own_type_alone",
    ),
    Mutation(
        "another key stands in for the one that a ticket names",
        "gpuruntime.tickets.keys",
        "return next(found, None)",
        "return next(found, self.keys[0])",
        f"{OF_TOKENS}::test_a_ticket_counts_while_its_own_key_does",
    ),
    Mutation(
        "an expired ticket counts",
        TOKENS,
        "if now >= claims.exp:",
        "if False:",
        f"{OF_TOKENS}::test_a_ticket_ends_at_its_expiry",
    ),
    Mutation(
        "a ticket counts for every port",
        TOKENS,
        "if is_bound and claims.port != target.port:",
        "if False:",
        f"{OF_TOKENS}::test_claims_reach_their_target_alone",
    ),
    Mutation(
        "a request wakes a unit that does not allow it",
        "gpuruntime.operations.units",
        "if not unit.spec.access.wake:",
        "if False:",
        f"{OF_ROUTES}::test_waking_a_unit_that_does_not_allow_it_is_409_and_changes_nothing",
    ),
    Mutation(
        "a wake token counts for a later unit of the name",
        "gpuruntime.operations.units",
        'if uid not in ("", _in_scope(unit, scope).metadata.uid):',
        "if _in_scope(unit, scope) is None:",
        f"{OF_ROUTES}::test_nothing_but_a_valid_wake_token_of_the_unit_wakes_it",
    ),
    Mutation(
        "an Event of a ticket shows the ticket",
        "gpuruntime.api.tickets.session_events",
        'named = f" ({label})" if label else ""',
        'named = f" ({ticket.ticket})"',
        f"{OF_ROUTES}::test_tickets_and_wakes_are_events_of_their_unit_which_show_no_ticket",
    ),
)
