"""The proxies of the environment, with the exceptions of NO_PROXY."""

import pytest

from gpuruntime.kube.connect.endpoint import environment_proxy

PROXY = "http://proxy.example:3128"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)


@pytest.mark.parametrize(
    ("url", "exceptions", "expected"),
    [
        ("https://kube.example", "", PROXY),
        ("http://kube.example", "", None),
        ("https://kube.example:6443", "kube.example", None),
        ("https://a.kube.example", ".kube.example", None),
        ("https://akube.example", "kube.example", PROXY),
        ("https://10.96.0.1:443", "10.96.0.0/12, other", None),
        ("https://10.1.0.1:443", "10.96.0.0/12", PROXY),
        ("https://[fd00::1]:443", "fd00::/8", None),
        ("https://kube.example", "*", None),
        ("https://127.0.0.1:6443", "", None),
        ("https://localhost:6443", "", None),
    ],
)
def test_a_server_is_reached_through_the_proxy_unless_it_is_excepted(
    monkeypatch: pytest.MonkeyPatch, url: str, exceptions: str, expected: str | None
) -> None:
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert environment_proxy(url) == expected


def test_a_proxy_without_a_scheme_is_taken_as_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    assert environment_proxy("https://kube.example") == PROXY
