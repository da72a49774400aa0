"""The metrics of a Prometheus expression, with the labels that it names."""

import re
from collections.abc import Iterator

import attrs

TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|[a-zA-Z_:][\w:]*|\d[\w.]*|=~|!~|!=|==|>=|<=|[-+*/%^=<>{}()\[\],]|\S'
)
NAME = re.compile(r"[a-zA-Z_:][\w:]*")
# A name before one of these belongs to a function.
CALLS = (["("], ["by"], ["without"])
GROUPING = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
WORDS = frozenset({"and", "or", "unless", "offset", "bool"})


@attrs.frozen
class Matcher:
    label: str
    sign: str
    value: str

    @property
    def values(self) -> tuple[str, ...]:
        """Return the named values, one for each alternative."""
        return tuple(self.value.split("|")) if self.sign.endswith("~") else (self.value,)


@attrs.frozen
class Selector:
    metric: str
    matchers: tuple[Matcher, ...] = ()

    def __str__(self) -> str:
        matchers_text = ",".join(
            f'{each.label}{each.sign}"{each.value}"' for each in self.matchers
        )
        return f"{self.metric}{{{matchers_text}}}"


@attrs.frozen
class Expression:
    selectors: tuple[Selector, ...]
    # The labels by which results are grouped or matched.
    grouped: frozenset[str]


def parse(text: str) -> Expression:
    tokens = TOKEN.findall(text)
    assert tokens.count("(") == tokens.count(")"), text
    selectors, grouped = [], set()
    place = 0
    while place < len(tokens):
        token, following = tokens[place], tokens[place + 1 : place + 2]
        if token in GROUPING and following == ["("]:
            end = tokens.index(")", place)
            grouped.update(tokens[place + 2 : end : 2])
            place = end
        elif NAME.fullmatch(token) and token not in WORDS | GROUPING and following not in CALLS:
            end = tokens.index("}", place) if following == ["{"] else place
            selectors.append(Selector(token, tuple(_matchers(tokens[place + 2 : end]))))
            place = end
        elif token == "[":
            place = tokens.index("]", place)
        place += 1
    return Expression(tuple(selectors), frozenset(grouped))


def _matchers(tokens: list[str]) -> Iterator[Matcher]:
    for start in range(0, len(tokens), 4):
        label, sign, value = tokens[start : start + 3]
        yield Matcher(label, sign, value.strip('"'))
