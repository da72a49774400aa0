"""Programs that stand for images, and the arguments that they get."""

import json

import pytest

from gpuruntime.embedded.kinds.container_objects import (
    ContainerPort,
    FieldSelector,
    ValueSource,
    Variable,
)
from gpuruntime.embedded.kinds.pod_objects import Container, Pod, PodSpec
from gpuruntime.embedded.processes.programs import (
    Program,
    missing_in,
    program_of,
    relocated,
    runs_as_processes,
    start_of,
)
from gpuruntime.framework.mounts import MOUNTS
from gpuruntime.models.kubernetes.metadata import ObjectMeta

WORKER = Program(
    name="worker", path="/bin/w", arguments=("-m", "w"), address_variable="WORKER_LISTEN"
)
PYTHON = Program(name="python", path="/venv/bin/python")
PROGRAMS = {"example/worker": WORKER, "python": PYTHON}
PLACES = {"/w": "/t/0", "/etc/worker": "/t/1", "/etc": "/t/2"}


def pod(*containers: Container) -> Pod:
    metadata = ObjectMeta(name="p", namespace="n", uid="u")
    return Pod(metadata=metadata, spec=PodSpec(nodeName="node-0", containers=containers))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/w", "/t/0"),
        ("/w/a.sock", "/t/0/a.sock"),
        ("--socket=/w/a.sock", "--socket=/t/0/a.sock"),
        ("path: '/etc/worker/creds'", "path: '/t/1/creds'"),
        ("/etc/other:/w", "/t/2/other:/t/0"),
        ("/work/x", "/work/x"),
        ("/home/w", "/home/w"),
        ("nats://host/w", "nats://host/w"),
        ("../w", "../w"),
    ],
)
def test_a_path_at_or_below_a_mount_is_replaced_by_the_real_one(text: str, expected: str) -> None:
    assert relocated(text, PLACES) == expected


def test_a_program_of_an_image_gets_its_address_and_mounts() -> None:
    each = Container(
        name="worker", image="example/worker", args=("run", "--config", "/etc/worker/w.yaml")
    )
    start = start_of(pod(each), each, WORKER, PLACES, 4711)
    assert start.argv == ("/bin/w", "-m", "w", "run", "--config", "/t/1/w.yaml")
    assert start.environment["WORKER_LISTEN"] == "127.0.0.1:4711"
    assert json.loads(start.environment[MOUNTS]) == PLACES


def test_an_interpreter_replaces_the_first_word_of_the_command() -> None:
    each = Container(
        image="python:3.12",
        command=("/usr/bin/python3", "serve.py"),
        args=("8000", "0.0.0.0"),
        ports=(ContainerPort(containerPort=8000),),
    )
    programs = {**PROGRAMS, "python3": PYTHON}
    assert program_of(each, programs) is PYTHON
    start = start_of(pod(each), each, PYTHON, {}, 4711)
    assert start.argv == ("/venv/bin/python", "serve.py", "4711", "127.0.0.1")


def test_a_variable_may_name_the_pod() -> None:
    field = ValueSource(fieldRef=FieldSelector(fieldPath="metadata.name"))
    env = (Variable(name="POD", valueFrom=field), Variable(name="FILE", value="/w/f"))
    each = Container(image="python:3.12", command=("python",), env=env)
    environment = start_of(pod(each), each, PYTHON, PLACES, 1).environment
    assert (environment["POD"], environment["FILE"]) == ("p", "/t/0/f")


def test_the_interpreter_of_a_command_takes_precedence_over_the_image() -> None:
    assert program_of(Container(image="example/worker", command=("python",)), PROGRAMS) is PYTHON


def test_a_pod_without_an_image_of_a_program_is_simulated() -> None:
    assert not runs_as_processes(
        pod(Container(image="python:3.12", command=("python",))), PROGRAMS
    )


def test_the_first_container_without_a_program_is_named() -> None:
    worker = Container(name="a", image="example/worker")
    other = Container(name="b", image="other", command=("serve",))
    assert missing_in(pod(worker), PROGRAMS) is None
    assert missing_in(pod(worker, other), PROGRAMS) == (other, Program(name="serve"))
    absent = {"example/worker": Program(name="worker")}
    assert missing_in(pod(worker), absent) == (worker, absent["example/worker"])
