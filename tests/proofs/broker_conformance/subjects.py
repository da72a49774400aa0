"""Subjects as the broker matches them: `*` is one token, and `>` is all that follow."""


def matches(pattern: str, subject: str) -> bool:
    if pattern == subject:
        return True
    wanted, tokens = pattern.split("."), subject.split(".")
    for number, token in enumerate(wanted):
        if token == ">":
            return len(tokens) > number
        if number >= len(tokens) or token not in ("*", tokens[number]):
            return False
    return len(wanted) == len(tokens)


def has_wildcard(pattern: str) -> bool:
    return "*" in pattern or ">" in pattern


def moved(subject: str, source: str, destination: str) -> str:
    """Replace the prefix before `>`, which ends both patterns, and keep the rest."""
    return destination[:-1] + subject[len(source) - 1 :]
