"""Rules for which Pods run as processes, and the words about the others."""

import pytest

from gpuruntime.embedded.kinds.container_objects import Variable
from gpuruntime.embedded.kinds.pod_objects import Container, Pod, PodSpec
from gpuruntime.embedded.processes.programs import CommandRules, ProcessRules, Program
from gpuruntime.models.kubernetes.metadata import ObjectMeta

WORKER = Program(name="worker", path="/bin/w")
PYTHON = Program(name="python", path="/venv/bin/python")
PROGRAMS = {
    "example/worker": WORKER,
    "python": PYTHON,
    "node": Program(name="node"),
    "bash": Program(name="bash", path="/bin/bash"),
}
COMMANDS = CommandRules(
    namespace="units", label="unit", names=("python", "node"), search_path="/opt/bin"
)
RULES = ProcessRules(programs=PROGRAMS, commands=COMMANDS)
UNITS_ALONE = ProcessRules(programs=PROGRAMS)
OFF = ProcessRules(
    programs=PROGRAMS,
    commands=CommandRules(namespace="units", label="unit", names=(), search_path=""),
)
SERVING = Container(name="c", image="python:3.12", command=("python", "-m", "http.server"))
OTHERS = "and only these run here: python, node"


def pod(*containers: Container, namespace: str = "units", label: str = "unit") -> Pod:
    metadata = ObjectMeta(name="p", namespace=namespace, uid="u", labels={label: "p"})
    return Pod(metadata=metadata, spec=PodSpec(nodeName="node-0", containers=containers))


def command(*words: str, **members: object) -> Container:
    return Container(name="c", image="any", command=words, **members)  # type: ignore[arg-type]  # members of Container


FAILING = command("python", env=(Variable(name="SIMULATE_FAIL", value="crash"),))


@pytest.mark.parametrize(
    ("rules", "asked", "runs", "why"),
    [
        pytest.param(RULES, pod(SERVING), True, "", id="a command that begins with a program"),
        pytest.param(RULES, pod(command("/usr/bin/python")), True, "", id="the same by a path"),
        pytest.param(
            RULES,
            pod(command()),
            False,
            "it has no command, and only commands run here that begin with python, node",
            id="an image alone",
        ),
        pytest.param(
            RULES,
            pod(command("serve")),
            False,
            f"its command begins with serve, {OTHERS}",
            id="another command",
        ),
        pytest.param(
            RULES,
            pod(command("bash")),
            False,
            f"its command begins with bash, {OTHERS}",
            id="a program that is not named",
        ),
        pytest.param(
            RULES,
            pod(command("python3.12")),
            False,
            f"its command begins with python3.12, {OTHERS}",
            id="a name that only begins alike",
        ),
        pytest.param(
            RULES,
            pod(command("node")),
            False,
            "node is not on the PATH: install it and start again",
            id="a program that is not installed",
        ),
        pytest.param(
            RULES,
            pod(SERVING, command("serve")),
            False,
            f"its command begins with serve, {OTHERS}",
            id="one container of two",
        ),
        pytest.param(RULES, pod(FAILING), False, "a failure is asked for", id="a failure"),
        pytest.param(RULES, pod(SERVING, namespace="stock"), False, "", id="another namespace"),
        pytest.param(RULES, pod(SERVING, label="job"), False, "", id="no unit"),
        pytest.param(OFF, pod(SERVING), False, "", id="commands are off"),
        pytest.param(UNITS_ALONE, pod(SERVING), False, "", id="no rules for commands"),
        pytest.param(
            RULES, pod(command(), Container(image="example/worker")), True, "", id="an image's Pod"
        ),
        pytest.param(OFF, pod(Container(image="example/worker")), True, "", id="images stay"),
    ],
)
def test_a_pod_runs_or_says_why_not(rules: ProcessRules, asked: Pod, runs: bool, why: str) -> None:
    assert (rules.run(asked), "" if runs else rules.why_simulated(asked)) == (runs, why)


def test_only_a_pod_that_runs_by_its_command_has_a_search_path() -> None:
    assert RULES.search_path(pod(SERVING)) == "/opt/bin"
    assert RULES.search_path(pod(SERVING, Container(image="example/worker"))) is None
    assert RULES.search_path(pod(command("serve"))) is None


def test_the_program_of_a_command_takes_precedence_over_the_image() -> None:
    each = Container(image="example/worker", command=("/usr/bin/python",))
    assert RULES.program_of(each) is PYTHON
    assert RULES.program_of(Container(image="example/worker", command=("w",))) is WORKER


def test_the_first_container_without_a_program_is_named() -> None:
    worker = Container(name="a", image="example/worker")
    other = Container(name="b", image="other", command=("serve",))
    assert RULES.missing_in(pod(worker)) is None
    assert RULES.missing_in(pod(worker, other)) == (other, Program(name="serve"))
    absent = ProcessRules(programs={"example/worker": Program(name="worker")})
    assert absent.missing_in(pod(worker)) == (worker, Program(name="worker"))
