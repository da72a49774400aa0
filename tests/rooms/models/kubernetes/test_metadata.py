"""A Key prints as kubectl writes it."""

from gpuruntime.models.kubernetes.metadata import Key


def test_a_key_prints_as_kubectl_writes_it() -> None:
    assert str(Key("a", "b")) == "a/b"
    assert str(Key("", "b")) == "b"
