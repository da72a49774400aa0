"""Functions, as their units declare them."""

from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.models.kinds.functions import Serverless, WorkerOf, worker_name
from gpuruntime.models.kinds.units import GPUUnitSpec
from gpuruntime.models.kubernetes.names import is_dns_label

TEMPLATES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
NUMBERS = st.integers(1, 1000)
FUNCTION = Serverless(requestID="f")


def test_a_worker_is_named_after_its_template() -> None:
    assert worker_name("echo", 1) == "echo-w-1"


@given(TEMPLATES, NUMBERS)
def test_the_name_of_a_worker_is_valid_in_kubernetes(template: str, number: int) -> None:
    name = worker_name(template, number)
    assert is_dns_label(name)
    assert name.endswith(f"-w-{number}")


@given(NUMBERS, NUMBERS)
def test_the_workers_of_long_templates_have_different_names(number: int, other: int) -> None:
    mine, theirs = "a" * 60 + "-ab", "a" * 60 + "-cd"
    assert worker_name(mine, number) != worker_name(theirs, number)
    assert (worker_name(mine, number) == worker_name(mine, other)) == (number == other)


def test_a_unit_declares_a_function_or_works_for_one() -> None:
    plain = GPUUnitSpec(specName="g")
    template = GPUUnitSpec(specName="g", serverless=FUNCTION)
    working = Serverless(requestID="f", workerOf=WorkerOf(name="f", uid="u"))
    worker = GPUUnitSpec(specName="g", serverless=working)
    told = [(each.is_function_template, each.is_function_worker) for each in (plain, template)]
    assert told == [(False, False), (True, False)]
    assert (worker.is_function_template, worker.is_function_worker) == (False, True)
