"""Lines of `access.sshKeys` as keys at a login, and what such a login may then do."""

import base64
from typing import Any

import asyncssh
import pytest

from gpuruntime.gateway.errors import Code, GatewayError
from gpuruntime.gateway.ssh.logins import Logins, blob_of, fingerprint_of
from gpuruntime.models.kinds.units import GPUUnit
from gpuruntime.models.requests.tickets import Use
from tests.rooms.gateway.visitors import NOW, gate_of, ticket, unit


def public_line(kind: str, **options: Any) -> str:
    key = asyncssh.generate_private_key(kind, **options)
    return key.export_public_key().decode().strip()


ED25519 = public_line("ssh-ed25519")
BLOB = base64.b64decode(ED25519.split()[1])
CA = asyncssh.generate_private_key("ssh-ed25519")
CERTIFICATE = CA.generate_user_certificate(
    asyncssh.generate_private_key("ssh-ed25519").convert_to_public(), "id", principals=["demo"]
)
LINES = {
    "ed25519": (ED25519, True),
    "with a comment": (f"{ED25519} me@laptop", True),
    "ecdsa": (public_line("ecdsa-sha2-nistp384"), True),
    "RSA of 2048 bits": (public_line("ssh-rsa", key_size=2048), True),
    "RSA of 1024 bits": (public_line("ssh-rsa", key_size=1024), False),
    "DSA": (public_line("ssh-dss"), False),
    "ed448": (public_line("ssh-ed448"), False),
    "a forced command": (f'command="id" {ED25519}', False),
    "an address": (f'from="10.0.0.0/8" {ED25519}', False),
    "an authority of certificates": (f"cert-authority {ED25519}", False),
    "a certificate": (CERTIFICATE.export_certificate().decode().strip(), False),
    "another type than its base64": (ED25519.replace("ssh-ed25519", "ssh-rsa", 1), False),
    "a cut key": (ED25519[:-8], False),
    "nothing": ("", False),
}


def logins(*units: GPUUnit, age: float = 0.0) -> Logins:
    return Logins(gate_of(*units, age=age), now=lambda: NOW, longest_seconds=3600)


@pytest.mark.parametrize(("line", "counts"), LINES.values(), ids=LINES)
def test_only_sound_keys_without_options_count(line: str, counts: bool) -> None:
    assert (blob_of(line) is not None) is counts


def test_a_listed_key_becomes_a_visit_bound_to_the_unit_of_that_moment() -> None:
    visitor = logins(unit(generation=3, sshKeys=(ED25519,))).by_key("demo", BLOB)
    claims = visitor.claims
    assert (claims.uid, claims.gen, claims.use) == ("uid-of-demo", 3, (Use.SSH,))
    assert claims.exp - claims.iat == 3600
    assert claims.sub == f"key:{fingerprint_of(BLOB)}"


NOT_LISTED = {
    "no unit of the name": ((), 0.0, Code.UNIT_UNKNOWN),
    "a unit without keys": ((unit(),), 0.0, Code.TICKET_REFUSED),
    "another unit's key": (
        (unit("other", sshKeys=(ED25519,)), unit()),
        0.0,
        Code.TICKET_REFUSED,
    ),
    "a silent watch": ((unit(sshKeys=(ED25519,)),), 61.0, Code.REVOCATION_UNKNOWN),
}


@pytest.mark.parametrize(("units", "age", "code"), NOT_LISTED.values(), ids=NOT_LISTED)
def test_a_key_counts_only_for_a_unit_that_lists_it(
    units: tuple[GPUUnit, ...], age: float, code: Code
) -> None:
    judged = logins(*units, age=age)
    assert not judged.has_key("demo", BLOB)
    with pytest.raises(GatewayError) as caught:
        judged.by_key("demo", BLOB)
    assert caught.value.code is code


def test_the_owner_of_a_key_is_told_that_the_unit_is_suspended() -> None:
    judged = logins(unit(suspended=True, sshKeys=(ED25519,)))
    assert judged.has_key("demo", BLOB), "or its owner could not prove that it has it"
    with pytest.raises(GatewayError) as caught:
        judged.by_key("demo", BLOB)
    assert caught.value.code is Code.UNIT_SUSPENDED


def test_a_suspended_unit_that_callers_resume_has_visitors() -> None:
    asleep = unit(suspended=True, wake=True, sshKeys=(ED25519,))
    judged = logins(asleep)
    assert judged.by_key("demo", BLOB).unit is asleep
    assert judged.by_ticket("demo", ticket(asleep)).unit is asleep


def test_the_fingerprint_is_the_one_of_openssh() -> None:
    key = asyncssh.import_public_key(ED25519)
    assert fingerprint_of(BLOB) == key.get_fingerprint()


def test_a_ticket_needs_the_use_and_the_unit() -> None:
    demo, other = unit(), unit("other")
    judged = logins(demo, other)
    assert judged.by_ticket("demo", ticket(demo, use=(Use.SSH,))).uid == "uid-of-demo"
    for user, given in (
        ("other", ticket(demo)),
        ("demo", ticket(demo, use=(Use.EXEC, Use.HTTP, Use.FORWARD))),
        ("demo", ""),
        ("", ticket(demo)),
    ):
        with pytest.raises(GatewayError):
            judged.by_ticket(user, given)
