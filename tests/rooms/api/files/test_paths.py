"""Paths of files: every way out of a storage is refused, and other paths stay unchanged."""

from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.files.paths import destination_of, target_of
from gpuruntime.strict.structure import StrictError

FILES = "/api/v1/gpu-storages/models/files"
NAMES = st.text(
    st.characters(exclude_characters="/\\", exclude_categories=("Cs", "Cc")), min_size=1
).filter(lambda name: name not in (".", ".."))


def is_taken(path: str, **options: bool) -> bool:
    try:
        return target_of(path, "models", **options) == path
    except StrictError:
        return False


@pytest.mark.parametrize(
    "path",
    [
        "/..",
        "/../other",
        "/a/../../b",
        "/./a",
        "/a/.",
        "/a/..",
        "/%2e%2e/b",
        "/%2E%2e",
        "/.%2e/b",
        "/%252e%252e/b",
        "/%25252e%25252e/b",
        "/%25%32%65%25%32%65/b",
        "/a%2fb",
        "/a%252fb",
        "/%2fetc/passwd",
        "//etc/passwd",
        "/a//b",
        "/a//",
        "/a%00.txt",
        "/%2500",
        "/a\\b",
        "/..%5c..%5cb",
        "/..%255c",
        "/a%0d%0aSet-Cookie: b",
        "/a%7f",
        "/%c0%ae%c0%ae/b",
        "/a%",
        "/a%2",
        "/a%zz",
        "/%ff",
        "/a#b",
        "/a?b#c",
        "/%2525252525252e",
        "x",
        "-other/a",
        "%2fa",
    ],
)
def test_a_path_that_may_lead_out_of_the_storage_is_refused(path: str) -> None:
    assert not is_taken(FILES + path)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/gpu-storages/other/files/a",
        "/api/v1/gpu-storages/%6dodels/files/a",
        "/api/v1/gpu-storages/models/../models/files/a",
        "http://here/api/v1/gpu-storages/models/files/a",
        "*",
        "",
    ],
)
def test_only_paths_below_the_storages_prefix_are_accepted(path: str) -> None:
    assert not is_taken(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/a.bin",
        "/a/b/",
        "/.hidden",
        "/...",
        "/a..b",
        "/100%25.txt",
        "/%2541",
        "/a%20b",
        "/a+b;c=d,e@f:g!$&'()*~",
        "/%E4%BD%A0%E5%A5%BD",
        "/a?",
        "/a?zip&x=../..&y=%00//",
    ],
)
def test_every_other_path_stays_unchanged(path: str) -> None:
    assert is_taken(FILES + path)


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_an_encoded_name_is_accepted_unless_it_may_lead_out(
    names: list[str],
) -> None:
    path = FILES + "/" + "/".join(quote(name, safe="") for name in names)
    is_twice = any(unquote(name) != name for name in names)
    assert is_taken(path) or is_twice


@pytest.mark.parametrize("path", ["", "/"])
def test_the_storages_root_can_be_read_and_not_changed(path: str) -> None:
    assert is_taken(FILES + path)
    assert not is_taken(FILES + path, is_change=True)


@pytest.mark.parametrize(
    "value",
    [f"{FILES}/b", f"http://here:80{FILES}/b", f"https://HERE:80{FILES}/b", f"{FILES}/b%20c/"],
)
def test_a_destination_below_the_same_storage_becomes_its_path(value: str) -> None:
    path = value[value.index("/api") :]
    assert destination_of(value, "models", "here:80") == path


@pytest.mark.parametrize(
    "value",
    [
        "",
        "b",
        "../b",
        FILES,
        f"{FILES}/",
        f"{FILES}/../../other/files/b",
        f"{FILES}/%2e%2e/b",
        f"{FILES}/b?c",
        f"{FILES}/b#c",
        "/api/v1/gpu-storages/other/files/b",
        f"http://elsewhere{FILES}/b",
        f"http://here:80@elsewhere{FILES}/b",
        f"//here:80{FILES}/b",
        f"ftp://here:80{FILES}/b",
        f"http://here:80/../{FILES}/b",
        f"http://here:80{FILES}/b\\..\\c",
    ],
)
def test_any_other_destination_is_refused(value: str) -> None:
    with pytest.raises(StrictError):
        destination_of(value, "models", "here:80")
