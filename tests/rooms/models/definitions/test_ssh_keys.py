"""OpenSSH public keys: whole keys of strong types count, and nothing beside them."""

import base64
import re
from collections.abc import Iterable
from typing import Final

import pytest

from gpuruntime.models.definitions.schemas import Schema
from gpuruntime.models.definitions.ssh_keys import fault_of_ssh_key
from gpuruntime.models.definitions.texts import SshKey
from gpuruntime.models.encoding.annotations import notes_of
from gpuruntime.models.requests.units import CreateUnit
from gpuruntime.strict.structure import StrictError, read

POINT: Final = b"\x04" + b"p" * 64
SHA_RSA: Final = "ssh-rsa"


def blob(*parts: bytes) -> str:
    data = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return base64.b64encode(data).decode()


def key(kind: str, *parts: bytes, named: str = "") -> str:
    return f"{kind} {blob((named or kind).encode(), *parts)}"


def rsa(bits: int, exponent: int = 65_537) -> str:
    """Return a key with an odd modulus of this many bits, behind a byte that keeps it positive."""
    number = (1 << (bits - 1)) | 1
    return key(
        SHA_RSA,
        exponent.to_bytes(exponent.bit_length() // 8 + 1, "big"),
        number.to_bytes(bits // 8 + 1, "big"),
    )


ED25519: Final = key("ssh-ed25519", b"e" * 32)
SOUND: Final = {
    "ed25519": ED25519,
    # The two of OpenSSH were made by ssh-keygen -t ed25519, and -t ecdsa -b 521.
    "ed25519 of OpenSSH": "ssh-ed25519 "
    "AAAAC3NzaC1lZDI1NTE5AAAAIKci9OBcGqbtudG78/0LgfOcKeZfdh0rijGUOuQuqjDV me@home",
    "nistp521 of OpenSSH": "ecdsa-sha2-nistp521 "
    "AAAAE2VjZHNhLXNoYTItbmlzdHA1MjEAAAAIbmlzdHA1MjEAAACFBACYOUYSb0ygCd730Ojbdy5IqomYPiNFq+V6e7sc"
    "8K6676MVrPgOrO/l4FRTXXR476pv3SFeL4y21lXWyw2a8Mx5XQFYBGC23QC/8+v5rgRzqKhqlMiavE7CZFJ2cHUyASCa"
    "xwfmfAmE+OVAXvZPQ/UBXIuKSNLmbq3LLAUy+Y4+ECpdEQ== me@home",
    "a comment": f"{ED25519} me@home, the laptop (ä)",
    "nistp256": key("ecdsa-sha2-nistp256", b"nistp256", POINT),
    "nistp384": key("ecdsa-sha2-nistp384", b"nistp384", b"\x04" + b"p" * 96),
    "nistp521": key("ecdsa-sha2-nistp521", b"nistp521", b"\x04" + b"p" * 132),
    "hardware ed25519": key("sk-ssh-ed25519@openssh.com", b"e" * 32, b"ssh:"),
    "hardware nistp256": key("sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", POINT, b"ssh:"),
    "RSA of 2048 bits": rsa(2048),
    "RSA of 16384 bits": rsa(16_384),
}
UNSOUND: Final = {
    "nothing": "",
    "a type alone": "ssh-ed25519",
    "options before it": f'command="sh" {ED25519}',
    "an option before it": f"no-pty {ED25519}",
    "a source before it": f'from="10.0.0.1" {ED25519}',
    "an authority": f"cert-authority {ED25519}",
    "a space before it": f" {ED25519}",
    "two spaces": ED25519.replace(" ", "  "),
    "two lines": f"{ED25519}\n{ED25519}",
    "a line end": f"{ED25519}\n",
    "a NUL in the comment": f"{ED25519} a\0b",
    "DSA": key("ssh-dss", b"p", b"q", b"g", b"y"),
    "a certificate": key("ssh-ed25519-cert-v01@openssh.com", b"n", b"e" * 32),
    "RSA of 2047 bits": rsa(2047),
    "RSA of 1024 bits": rsa(1024),
    "RSA past all bounds": rsa(16_392),
    "RSA of an even exponent": rsa(2048, exponent=2),
    "RSA of exponent one": rsa(2048, exponent=1),
    "RSA that is negative": key(SHA_RSA, b"\x01\x00\x01", b"\xff" * 256),
    "RSA without a modulus": key(SHA_RSA, b"\x01\x00\x01"),
    "a short ed25519": key("ssh-ed25519", b"e" * 31),
    "a part too many": key("ssh-ed25519", b"e" * 32, b"more"),
    "bytes behind it": f"{ED25519}eHl6",
    "another type within": key("ssh-ed25519", b"e" * 32, named="ssh-rsa"),
    "another curve": key("ecdsa-sha2-nistp256", b"nistp384", b"\x04" + b"p" * 96),
    "a compressed point": key("ecdsa-sha2-nistp256", b"nistp256", b"\x02" + b"p" * 32),
    "hardware without its application": key("sk-ssh-ed25519@openssh.com", b"e" * 32, b""),
    "no base64": "ssh-ed25519 !!!!",
    "cut base64": ED25519[:-8],
    "an empty blob": "ssh-ed25519 AAAA",
    "a private key": "-----BEGIN OPENSSH PRIVATE KEY-----",
    "a long comment": f"{ED25519} {'c' * 4096}",
}


def refused(keys: Iterable[str]) -> list[str]:
    """Return the fields that the API names when a unit is created with these keys."""
    order = {"operationID": "a", "specName": "g1.1", "image": "a:1"}
    try:
        read({**order, "access": {"sshKeys": list(keys)}}, CreateUnit)
    except StrictError as error:
        return [problem.field for problem in error.problems]
    return []


@pytest.mark.parametrize("text", SOUND.values(), ids=SOUND)
def test_a_whole_key_of_a_strong_type_is_accepted(text: str) -> None:
    assert fault_of_ssh_key(text) == ""
    assert refused([text]) == []


@pytest.mark.parametrize("text", UNSOUND.values(), ids=UNSOUND)
def test_anything_else_is_refused(text: str) -> None:
    assert refused([ED25519, text]) == ["access.sshKeys[1]"]


def test_the_words_for_a_small_rsa_key_name_its_size_and_the_remedy() -> None:
    assert fault_of_ssh_key(rsa(1024)) == (
        "is an RSA key of 1024 bits, not 2048 to 16384: use ssh-ed25519"
    )


def test_the_pattern_alone_refuses_what_is_not_one_key() -> None:
    """The definition has no other means against options, in units that kubectl writes."""
    (bounds,) = (note for note in notes_of(SshKey) if isinstance(note, Schema))
    texts = [text for name, text in UNSOUND.items() if "before" in name or "lines" in name]
    assert len(texts) == 5
    assert not any(re.fullmatch(bounds.pattern, text) for text in texts)
