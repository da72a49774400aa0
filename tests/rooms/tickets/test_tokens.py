"""Tokens are signed and verified: exactly ours count, for their type, unit, use and time."""

import base64
import hmac
import json
from random import Random
from typing import Final

import attrs
import pytest

from gpuruntime.models.requests.tickets import Use
from gpuruntime.tickets.keys import KeyRing, TicketKey
from gpuruntime.tickets.tokens import (
    LONGEST_TOKEN,
    Claims,
    Refusal,
    Target,
    TokenRefusedError,
    TokenType,
    refusal_of,
    sign,
    verify,
)

NOW: Final = 1_800_000_000
KEY: Final = TicketKey(id="k1", secret=b"1" * 32)
OTHER: Final = TicketKey(id="k2", secret=b"2" * 32)
RING: Final = KeyRing((KEY, OTHER))
CLAIMS: Final = Claims(
    jti="7a",
    uid="5b9c",
    unit="demo",
    gen=2,
    use=(Use.HTTP, Use.EXEC),
    port=8080,
    iat=NOW,
    exp=NOW + 900,
    sub="ci",
    tenant="a",
)
TICKET: Final = sign(CLAIMS, TokenType.TICKET, KEY)
TARGET: Final = Target(uid="5b9c", generation=2, use=Use.HTTP, port=8080)
ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \n\0é%"


def reason(token: str, ring: KeyRing = RING, now: float = NOW) -> Refusal | None:
    try:
        verify(token, TokenType.TICKET, ring, now)
    except TokenRefusedError as error:
        return error.reason
    return None


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def headed(header: str) -> str:
    """Return the ticket's claims behind another header, signed with the right key over both."""
    signed = f"{encoded(header)}.{TICKET.split('.')[1]}"
    signature = hmac.digest(KEY.secret, signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def test_a_ticket_is_a_compact_jws_with_exactly_the_stated_header() -> None:
    header, payload, _ = TICKET.split(".")
    read = base64.urlsafe_b64decode(header + "==")
    assert read == b'{"alg":"HS256","kid":"k1","typ":"gpuruntime-ticket"}'
    assert json.loads(base64.urlsafe_b64decode(payload + "==")) == {
        "iss": "gpuruntime",
        "jti": "7a",
        "uid": "5b9c",
        "unit": "demo",
        "gen": 2,
        "use": ["http", "exec"],
        "port": 8080,
        "iat": NOW,
        "exp": NOW + 900,
        "sub": "ci",
        "tenant": "a",
    }


def test_claims_without_port_and_tenant_have_no_such_members() -> None:
    claims = attrs.evolve(CLAIMS, port=None, tenant=None)
    token = sign(claims, TokenType.TICKET, KEY)
    members = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert members.keys().isdisjoint({"port", "tenant", "until"})
    assert verify(token, TokenType.TICKET, RING, NOW) == claims


@pytest.mark.parametrize("made", TokenType)
@pytest.mark.parametrize("asked", TokenType)
def test_a_token_counts_for_its_own_type_alone(made: TokenType, asked: TokenType) -> None:
    token = sign(CLAIMS, made, KEY)
    if made is asked:
        assert verify(token, asked, RING, NOW) == CLAIMS
        return
    with pytest.raises(TokenRefusedError) as caught:
        verify(token, asked, RING, NOW)
    assert caught.value.reason is Refusal.INVALID


@pytest.mark.parametrize(
    "header",
    [
        '{"alg":"none","kid":"k1","typ":"gpuruntime-ticket"}',
        '{"alg":"HS512","kid":"k1","typ":"gpuruntime-ticket"}',
        '{"kid":"k1","alg":"HS256","typ":"gpuruntime-ticket"}',
        '{"alg":"HS256","kid":"k1","typ":"JWT"}',
        '{"alg":"HS256","kid":"k1","typ":"gpuruntime-ticket","jku":"http://a"}',
        '{"alg": "HS256","kid":"k1","typ":"gpuruntime-ticket"}',
        '{"alg":"HS256","kid":"","typ":"gpuruntime-ticket"}',
        '{"alg":"HS256","kid":"../k1","typ":"gpuruntime-ticket"}',
        '{"alg":"HS256","typ":"gpuruntime-ticket"}',
        "{}",
    ],
)
def test_another_header_is_refused_even_if_the_right_key_signed_it(header: str) -> None:
    assert reason(headed(header)) is Refusal.INVALID


def test_the_stated_header_signed_in_the_same_way_counts() -> None:
    assert reason(headed('{"alg":"HS256","kid":"k1","typ":"gpuruntime-ticket"}')) is None


def test_none_of_10000_mutated_tickets_counts_and_none_raises_anything_else() -> None:
    rng = Random(19)
    whole = (TICKET, sign(attrs.evolve(CLAIMS, uid="77aa", gen=9), TokenType.TICKET, KEY))
    seen: set[str] = set()
    while len(seen) < 10_000:
        mutated = mutation(rng, whole)
        if mutated not in whole and mutated not in seen:
            seen.add(mutated)
            assert reason(mutated) is Refusal.INVALID, mutated


def mutation(rng: Random, whole: tuple[str, ...]) -> str:
    """Return a ticket with some characters changed, added, dropped or moved, or spliced of two."""
    text = list(rng.choice(whole))
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text))
        match rng.randrange(6):
            case 0 | 1:
                text[at] = rng.choice(ALPHABET)
            case 2:
                text.insert(at, rng.choice(ALPHABET))
            case 3:
                del text[at : at + rng.randint(1, 9)]
            case 4:
                text = text[at:] + text[:at]
            case _:
                parts = zip(*(each.split(".") for each in whole), strict=True)
                text = list(".".join(rng.choice(part) for part in parts))
        if not text:
            text = ["."]
    return "".join(text)


def test_every_other_last_character_of_the_signature_is_refused() -> None:
    """Two bits of the last character are no bits of the signature: base64 alone ignores them."""
    others = set(ALPHABET[:64]) - {TICKET[-1]}
    assert {reason(TICKET[:-1] + each) for each in others} == {Refusal.INVALID}


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "a.b", "a.b.c", "a.b.c.d", TICKET + "\n", TICKET + ".", "A" * 100_000],
    ids=repr,
)
def test_a_text_that_is_no_token_is_refused(token: str) -> None:
    assert reason(token) is Refusal.INVALID


def test_a_token_is_signed_and_accepted_up_to_the_greatest_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def padded(length: int) -> str:
        return sign(attrs.evolve(CLAIMS, sub="s" * length), TokenType.TICKET, KEY)

    with monkeypatch.context() as unbounded:
        unbounded.setattr("gpuruntime.tickets.tokens.LONGEST_TOKEN", 10_000)
        fitting = next(n for n in range(4096, 0, -1) if len(padded(n)) <= LONGEST_TOKEN)
        longer = padded(fitting + 3)
        assert reason(longer) is None
    assert reason(padded(fitting)) is None
    assert reason(longer) is Refusal.INVALID
    with pytest.raises(ValueError, match="at most 4096"):
        padded(fitting + 3)


@pytest.mark.parametrize(
    "payload",
    [
        '{"iss":"other"}',
        '{"iss":"gpuruntime"}',
        "[]",
        "7",
        "{",
        json.dumps({"iss": "gpuruntime", **attrs.asdict(CLAIMS), "use": ["fly"]}),
        json.dumps({"iss": "gpuruntime", **attrs.asdict(CLAIMS), "ip": "10.0.0.1"}),
    ],
)
def test_a_signed_payload_with_other_claims_is_refused(
    payload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuruntime.tickets.tokens.json.dumps", lambda *_, **__: payload)
    assert reason(sign(CLAIMS, TokenType.TICKET, KEY)) is Refusal.INVALID


@pytest.mark.parametrize(
    ("now", "expected"),
    [(NOW, None), (NOW + 899.9, None), (NOW + 900, Refusal.EXPIRED), (NOW + 1e6, Refusal.EXPIRED)],
)
def test_a_ticket_ends_at_its_expiry(now: float, expected: Refusal | None) -> None:
    assert reason(TICKET, now=now) is expected


ROTATED: Final = {
    "the first key signed": (KeyRing((KEY,)), None),
    "a later key signed": (KeyRing((OTHER, KEY)), None),
    "its key has an end to come": (KeyRing((OTHER, attrs.evolve(KEY, until=NOW + 1))), None),
    "its key has ended": (KeyRing((OTHER, attrs.evolve(KEY, until=NOW))), Refusal.INVALID),
    "its key is removed": (KeyRing((OTHER,)), Refusal.INVALID),
    "its id has another secret": (
        KeyRing((attrs.evolve(OTHER, id="k1"),)),
        Refusal.INVALID,
    ),
    "its secret has another id": (KeyRing((attrs.evolve(KEY, id="k9"),)), Refusal.INVALID),
}


@pytest.mark.parametrize(("ring", "expected"), ROTATED.values(), ids=ROTATED)
def test_a_ticket_counts_while_its_own_key_does(ring: KeyRing, expected: Refusal | None) -> None:
    assert reason(TICKET, ring) is expected


def test_the_first_key_signs() -> None:
    assert KeyRing((OTHER, KEY)).signing is OTHER


TARGETS: Final = {
    "its own": (TARGET, None),
    "another unit": (attrs.evolve(TARGET, uid="77aa"), Refusal.UNIT),
    "another unit in all": (
        Target(uid="77aa", generation=9, use=Use.SSH, port=1),
        Refusal.UNIT,
    ),
    "a raised generation": (attrs.evolve(TARGET, generation=3), Refusal.REVOKED),
    "a mirror behind the generation": (attrs.evolve(TARGET, generation=1), None),
    "another use": (attrs.evolve(TARGET, use=Use.SSH), Refusal.USE),
    "another port": (attrs.evolve(TARGET, port=8081), Refusal.PORT),
    "no port": (attrs.evolve(TARGET, port=None), Refusal.PORT),
    "a use without ports": (attrs.evolve(TARGET, use=Use.EXEC, port=None), None),
}


@pytest.mark.parametrize(("target", "expected"), TARGETS.values(), ids=TARGETS)
def test_claims_reach_their_target_alone(target: Target, expected: Refusal | None) -> None:
    assert refusal_of(CLAIMS, target) is expected


def test_claims_without_a_port_reach_every_port() -> None:
    claims = attrs.evolve(CLAIMS, use=(Use.FORWARD,), port=None)
    target = attrs.evolve(TARGET, use=Use.FORWARD, port=5432)
    assert refusal_of(claims, target) is None


def test_a_refusal_and_a_key_never_show_what_is_secret() -> None:
    assert "1111" not in repr(RING)
    with pytest.raises(TokenRefusedError) as caught:
        verify(TICKET, TokenType.WAKE, RING, NOW)
    assert TICKET not in str(caught.value)
