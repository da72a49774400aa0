import pytest

from gpuruntime.models.kubernetes.selectors import (
    InvalidSelectorError,
    parse_field_selector,
    parse_label_selector,
    requirement_of,
    selector_of,
)

LABELS = {"app": "web", "tier": "front", "example.org/size": "3", "empty": ""}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "app=web",
        "app==web",
        "app = web , tier=front",
        "app!=db",
        "missing!=x",
        "app in (db, web)",
        "app notin (db)",
        "missing notin (x)",
        "app",
        "!missing",
        "! missing",
        "example.org/size=3",
        "example.org/size>2",
        "example.org/size<4,app",
        "empty=",
        "empty in ()",
    ],
)
def test_a_selector_matches(text: str) -> None:
    assert parse_label_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        "app=db",
        "missing=x",
        "missing in (x)",
        "app!=web",
        "app notin (web,db)",
        "!app",
        "missing",
        "app=web,tier=back",
        "example.org/size>3",
        "app>1",
        "missing<1",
    ],
)
def test_a_selector_does_not_match(text: str) -> None:
    assert not parse_label_selector(text).matches(LABELS)


@pytest.mark.parametrize(
    "text",
    [
        *["=a", "a in b", "a in (b", "a in (b c)", "a=b,,c", "a=b,", ",", "a=b c", "a=b=c"],
        *["!a=b", "a!b", "!", "-a=b", "a=-b", "a..b/c=d", f"{'a' * 64}=b", f"a={'b' * 64}"],
        *["a>b", "a>", "a>-1", f"a>{2**63}", f"a<{'9' * 5_000}"],
    ],
)
def test_a_text_that_is_not_a_selector_is_rejected_and_quoted(text: str) -> None:
    with pytest.raises(InvalidSelectorError):
        parse_label_selector(text)


def test_a_label_beyond_64_bits_is_not_an_integer() -> None:
    assert parse_label_selector("size>1").matches({"size": str(2**63 - 1)})
    assert not parse_label_selector("size>1").matches({"size": str(2**63)})


def test_field_selectors_compare_whole_values() -> None:
    fields = {"metadata.name": "a", "status.phase": "Running"}
    assert parse_field_selector("metadata.name=a,status.phase!=Failed").matches(fields)
    assert parse_field_selector("metadata.name==a").matches(fields)
    assert not parse_field_selector("metadata.name!=a").matches(fields)
    assert parse_field_selector("spec.nodeName=").matches(fields)
    with pytest.raises(InvalidSelectorError, match=r"metadata\.name"):
        parse_field_selector("metadata.name")


def test_the_form_of_selectors_in_objects_means_the_same() -> None:
    held = selector_of({"app": "web"}, (requirement_of("tier", "In", ("front", "back")),))
    assert held.matches(LABELS)
    assert not held.matches({"app": "web"})
    assert selector_of({}, (requirement_of("missing", "DoesNotExist", ()),)).matches(LABELS)


@pytest.mark.parametrize(
    ("operator", "values", "fault"),
    [
        ("Equals", ("b",), "'Equals' is not one of"),
        ("In", (), "a: in needs a value"),
        ("NotIn", (), "a: notin needs a value"),
        ("Exists", ("b",), "a: exists takes no values"),
        ("DoesNotExist", ("b",), "a: ! takes no values"),
    ],
    ids=str,
)
def test_an_expression_needs_values_exactly_if_its_operator_takes_them(
    operator: str, values: tuple[str, ...], fault: str
) -> None:
    with pytest.raises(InvalidSelectorError, match=fault):
        requirement_of("a", operator, values)
