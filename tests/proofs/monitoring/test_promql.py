from tests.proofs.monitoring.promql import Matcher, Selector, parse


def test_metrics_are_found_with_their_label_matchers() -> None:
    found = parse('sum by (pod, le) (rate(a_total{x="1",y!~"b|c"}[5m])) / on (pod) b > 0.5')
    assert found.selectors == (
        Selector("a_total", (Matcher("x", "=", "1"), Matcher("y", "!~", "b|c"))),
        Selector("b"),
    )
    assert found.grouped == {"pod", "le"}


def test_functions_keywords_durations_and_numbers_are_no_metrics() -> None:
    found = parse("max(a) - max(a offset 30m) > 0 or absent(b{}) and on (z) vector(1)")
    assert [each.metric for each in found.selectors] == ["a", "a", "b"]


def test_an_alternative_stands_for_several_values() -> None:
    [selector] = parse('a{code=~"5..|429"}').selectors
    assert selector.matchers[0].values == ("5..", "429")
    assert str(selector) == 'a{code=~"5..|429"}'
