"""The arguments, environment and folder with which a container starts as a process."""

import json

import pytest

from gpuruntime.embedded.kinds.container_objects import (
    ContainerPort,
    FieldSelector,
    ValueSource,
    Variable,
)
from gpuruntime.embedded.kinds.pod_objects import Container, Pod, PodSpec
from gpuruntime.embedded.processes.port_plan import Ports
from gpuruntime.embedded.processes.programs import ProcessRules, Program
from gpuruntime.embedded.processes.start_plan import (
    Home,
    Start,
    command_in,
    relocated,
    start_of,
)
from gpuruntime.framework.mounts import MOUNTS
from gpuruntime.models.kubernetes.metadata import ObjectMeta

WORKER = Program(
    name="worker", path="/bin/w", arguments=("-m", "w"), address_variable="WORKER_LISTEN"
)
PYTHON = Program(name="python", path="/venv/bin/python")
PLACES = {"/w": "/t/0", "/etc/worker": "/t/1", "/etc": "/t/2"}
HTTP = Ports(by_number={8000: 4711}, numbers={"http": 8000}, first=8000)


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
        ("/data/x", "/data/x"),
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
    start = start_of(pod(each), each, WORKER, places=PLACES, ports=Ports(address=4711))
    assert start.argv == ("/bin/w", "-m", "w", "run", "--config", "/t/1/w.yaml")
    assert start.environment["WORKER_LISTEN"] == "127.0.0.1:4711"
    assert json.loads(start.environment[MOUNTS]) == PLACES


def test_a_program_replaces_the_first_word_of_the_command() -> None:
    each = Container(
        image="python:3.12",
        command=("/usr/bin/python3", "serve.py"),
        args=("8000", "0.0.0.0"),
        ports=(ContainerPort(containerPort=8000),),
    )
    start = start_of(pod(each), each, PYTHON, places={}, ports=HTTP)
    assert start.argv == ("/venv/bin/python", "serve.py", "4711", "127.0.0.1")


def test_a_variable_may_name_the_pod() -> None:
    field = ValueSource(fieldRef=FieldSelector(fieldPath="metadata.name"))
    env = (Variable(name="POD", valueFrom=field), Variable(name="FILE", value="/w/f"))
    each = Container(image="python:3.12", command=("python",), env=env)
    environment = start_of(pod(each), each, PYTHON, places=PLACES).environment
    assert (environment["POD"], environment["FILE"]) == ("p", "/t/0/f")


def test_a_home_is_the_folder_of_the_process_and_of_its_commands() -> None:
    each = Container(image="python:3.12", command=("python",))
    home = Home(folder="/t/home", search_path="/opt/bin:/bin")
    start = start_of(pod(each), each, PYTHON, places=PLACES, ports=HTTP, home=home)
    assert (start.folder, start.environment["HOME"]) == ("/t/home", "/t/home")
    assert start.environment["PATH"] == "/opt/bin:/bin"
    command = command_in(start, ("python3", "/w/a"), ProcessRules(programs={"python3": PYTHON}))
    assert command.argv == ("/venv/bin/python", "/t/0/a")
    assert (command.folder, command.environment) == (start.folder, start.environment)


def test_a_folder_of_the_container_comes_before_its_home() -> None:
    each = Container(image="python:3.12", command=("python",), workingDir="/usr")
    home = Home(folder="/t/home", search_path="/bin")
    assert start_of(pod(each), each, PYTHON, places={}, home=home).folder == "/usr"


def test_a_command_that_is_no_program_of_ours_stays() -> None:
    start = Start(argv=("a",), environment={})
    rules = ProcessRules(programs={"node": Program(name="node")})
    assert command_in(start, ("node", "x"), rules).argv == ("node", "x")
    assert command_in(start, ("/bin/ls",), rules).argv == ("/bin/ls",)
