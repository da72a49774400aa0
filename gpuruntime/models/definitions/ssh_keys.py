"""OpenSSH public keys, judged by what their base64 contains: the type, the curve, the size."""

import base64
import binascii
from typing import Any, Final

_FEWEST_RSA_BITS: Final = 2048
_MOST_RSA_BITS: Final = 16_384
_ED25519_BYTES: Final = 32
# An uncompressed point of each curve: one byte of form, then two coordinates.
_POINT_BYTES: Final = {"nistp256": 65, "nistp384": 97, "nistp521": 133}
_LENGTH_BYTES: Final = 4


def fault_of_ssh_key(text: Any) -> str:
    """Return what is wrong with the key, or nothing; the pattern judges the form of the line."""
    words = text.split(" ", 2) if isinstance(text, str) else []
    if len(words) < 2:
        return ""
    kind, encoded, *_ = words
    try:
        name, *parts = _parts_of(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        return "its base64 is no SSH public key: copy the whole line of the .pub file"
    if name != kind.encode():
        return f"its base64 is not of type {kind}: copy the whole line of the .pub file"
    return _fault_of_parts(kind, parts)


def _fault_of_parts(kind: str, parts: list[bytes]) -> str:
    match kind, parts:
        case "ssh-ed25519", [key]:
            is_whole = len(key) == _ED25519_BYTES
        case "sk-ssh-ed25519@openssh.com", [key, application]:
            is_whole = len(key) == _ED25519_BYTES and bool(application)
        case "sk-ecdsa-sha2-nistp256@openssh.com", [curve, point, application]:
            is_whole = _is_point("nistp256", curve, point) and bool(application)
        case "ssh-rsa", [exponent, modulus]:
            return _fault_of_rsa(exponent, modulus)
        case _, [curve, point]:
            is_whole = _is_point(kind.rpartition("-")[2], curve, point)
        case _:
            is_whole = False
    return "" if is_whole else f"is no whole key of type {kind}: copy the line of the .pub file"


def _is_point(curve: str, named: bytes, point: bytes) -> bool:
    return (
        named == curve.encode() and point[:1] == b"\x04" and len(point) == _POINT_BYTES.get(curve)
    )


def _fault_of_rsa(exponent: bytes, modulus: bytes) -> str:
    public = int.from_bytes(exponent, "big", signed=True)
    number = int.from_bytes(modulus, "big", signed=True)
    bits = number.bit_length() if number > 0 else 0
    if not _FEWEST_RSA_BITS <= bits <= _MOST_RSA_BITS:
        return (
            f"is an RSA key of {bits} bits, not {_FEWEST_RSA_BITS} to {_MOST_RSA_BITS}: "
            "use ssh-ed25519"
        )
    is_odd = public > 1 and public % 2 == 1 and number % 2 == 1
    return "" if is_odd else "is no whole key of type ssh-rsa: copy the line of the .pub file"


def _parts_of(blob: bytes) -> list[bytes]:
    """Return the parts of the blob, each behind its length. Raise ValueError if it is cut."""
    parts = []
    while blob:
        end = _LENGTH_BYTES + int.from_bytes(blob[:_LENGTH_BYTES], "big")
        if len(blob) < max(end, _LENGTH_BYTES):
            raise ValueError("a part is cut")
        parts.append(blob[_LENGTH_BYTES:end])
        blob = blob[end:]
    if not parts:
        raise ValueError("there is no part")
    return parts
