"""The table of docs/metrics.md; `python -m tests.rooms.telemetry.metrics_page` renews it."""

from collections.abc import Collection, Iterable
from pathlib import Path

from gpuruntime.telemetry.catalogue import CATALOGUE
from gpuruntime.telemetry.metric import Label, Metric, RoleName

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
BEGIN, END = "<!-- the catalogue -->\n", "<!-- its end -->\n"
HEAD = "| metric | kind | roles | labels | what it says |\n|---|---|---|---|---|\n"


def table(catalogue: Iterable[Metric] = CATALOGUE) -> str:
    return HEAD + "".join(f"| {' | '.join(_cells(metric))} |\n" for metric in catalogue)


def renewed(page: str) -> str:
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


def _cells(metric: Metric) -> tuple[str, ...]:
    is_every = set(metric.roles) == set(RoleName)
    roles = "all" if is_every else ", ".join(metric.roles)
    labels = "; ".join(f"`{each.name}`: {_values(each, metric.roles)}" for each in metric.labels)
    return (f"`{metric.full_name}`", metric.kind, roles, labels, metric.help)


def _values(label: Label, roles: Collection[RoleName]) -> str:
    if label.bound:
        return label.bound
    if not label.by_role:
        return _listed(label.values)
    values_by_role = {role: values for role, values in label.by_role.items() if role in roles}
    return ", ".join(f"{_listed(values)} ({role})" for role, values in values_by_role.items())


def _listed(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text()))
