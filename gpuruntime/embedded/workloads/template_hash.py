"""The hash of a Pod template: it tells the ReplicaSets of one Deployment apart."""

from functools import lru_cache
from hashlib import sha256
from typing import Final

from gpuruntime.models.encoding.codec import decode_object, encode_canonical

LABEL: Final = "pod-template-hash"

# Without vowels and look-alikes, so that no hash is a word.
_SIGNS: Final = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH: Final = 10


@lru_cache(maxsize=8_192)
def template_hash(template: bytes) -> str:
    """Equal for equal templates, whatever the order of their members."""
    number = int.from_bytes(sha256(encode_canonical(decode_object(template))).digest()[:8])
    signs = []
    for _ in range(_LENGTH):
        number, index = divmod(number, len(_SIGNS))
        signs.append(_SIGNS[index])
    return "".join(signs)
