"""The ports of a container as a process: which are free ones, and which stay as declared."""

import socket
from itertools import count

import pytest

from gpuruntime.embedded.kinds.container_objects import ContainerPort, Probe, TcpSocket
from gpuruntime.embedded.kinds.pod_objects import Container
from gpuruntime.embedded.processes.port_plan import (
    PORTS,
    PortTakenError,
    demand_free,
    free_port,
    is_free,
    ports_of,
)
from gpuruntime.embedded.processes.programs import Program

PYTHON = Program(name="python", path="/venv/bin/python")
WORKER = Program(name="worker", path="/bin/w", address_variable="LISTEN")
FREE = 4711
DECLARED = (ContainerPort(name="http", containerPort=8000),)


def container(
    *words: str, ports: tuple[ContainerPort, ...] = DECLARED, asked: int = 0
) -> Container:
    probe = Probe(tcpSocket=TcpSocket(port=asked)) if asked else None
    return Container(command=("python", *words), ports=ports, readinessProbe=probe)


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        pytest.param("8000", "4711", id="the port"),
        pytest.param(":8000", ":4711", id="the port of every address"),
        pytest.param("127.0.0.1:8000", "127.0.0.1:4711", id="an address"),
        pytest.param("0.0.0.0:8000", "127.0.0.1:4711", id="every address of one family"),
        pytest.param("[::]:8000", "127.0.0.1:4711", id="every address of both"),
        pytest.param("tcp://0.0.0.0:8000", "tcp://127.0.0.1:4711", id="a URL"),
        pytest.param("--port=8000", "--port=4711", id="a flag"),
        pytest.param("--bind=0.0.0.0:8000", "--bind=127.0.0.1:4711", id="a flag with an address"),
        pytest.param("18000", "18000", id="a longer number"),
        pytest.param("80001", "80001", id="a number that begins alike"),
        pytest.param("-p8000", "-p8000", id="a flag without a sign"),
        pytest.param("serve 8000", "serve 8000", id="a script"),
        pytest.param("http://host:8000/", "http://host:8000/", id="in the middle"),
        pytest.param("8000/tcp", "8000/tcp", id="at the beginning"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_an_argument_that_names_the_port_gets_a_free_one(argument: str, expected: str) -> None:
    ports = ports_of(container(argument), PYTHON, lambda: FREE)
    is_named = argument != expected
    assert ports.relocated(argument) == expected
    assert ports.real(8000) == ports.real("http") == (FREE if is_named else 8000)
    assert [*ports.unchanged] == ([] if is_named else [8000])


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("0.0.0.0", "127.0.0.1"),
        ("0.0.0.0,::", "127.0.0.1"),
        ("--host=0.0.0.0", "--host=127.0.0.1"),
        ("[::]", "127.0.0.1"),
        ("10.0.0.0", "10.0.0.0"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("10.0.0.0.0", "10.0.0.0.0"),
    ],
)
def test_every_address_is_loopback(argument: str, expected: str) -> None:
    assert ports_of(container(argument), PYTHON, lambda: FREE).relocated(argument) == expected


def test_each_named_port_has_a_free_one_of_its_own() -> None:
    declared = tuple(ContainerPort(name=f"p{each}", containerPort=each) for each in (80, 81, 82))
    numbers = iter([82, 4711, 4711, 4712])
    ports = ports_of(container("80", "x=81", ports=declared), PYTHON, lambda: next(numbers))
    assert [ports.real(each) for each in (80, 81, 82)] == [4711, 4712, 82]
    assert ports.relocated("80:81") == "80:4712"


def test_the_words_say_where_each_port_is() -> None:
    declared = (ContainerPort(containerPort=80), ContainerPort(containerPort=81))
    ports = ports_of(container("80", ports=declared), PYTHON, lambda: FREE)
    assert ports.words == ", 80 at 127.0.0.1:4711, 81 at 127.0.0.1:81"
    assert ports_of(container(ports=()), PYTHON, lambda: FREE).words == ""


def test_variables_tell_the_real_ports() -> None:
    declared = (ContainerPort(name="web-ui", containerPort=80), ContainerPort(containerPort=81))
    ports = ports_of(container("80", ports=declared), PYTHON, lambda: FREE)
    told = {"PORT": "4711", "GPURUNTIME_PORT_WEB_UI": "4711", "GPURUNTIME_PORT_81": "81"}
    assert ports.told({}) == told
    assert ports.told({"PORT": "80"}) == told, "the caller's own port is the real one"
    assert "PORT" not in ports.told({"PORT": "COM1"}), "another value stays"


def test_the_variable_port_is_the_probed_one() -> None:
    declared = (ContainerPort(containerPort=80), ContainerPort(containerPort=81))
    asked = ports_of(container(ports=declared, asked=81), PYTHON, lambda: FREE)
    assert asked.told({})["PORT"] == "81"


def test_a_container_without_ports_is_told_of_none() -> None:
    ports = ports_of(container(ports=()), PYTHON, lambda: FREE)
    assert (ports.told({}), ports.real(8000), ports.real("http")) == ({}, None, None)


def test_a_port_of_udp_is_no_port_of_tcp() -> None:
    udp = (ContainerPort(name="dns", containerPort=53, protocol="UDP"),)
    assert ports_of(container("53", ports=udp), PYTHON, lambda: FREE).real(53) is None


def test_a_program_that_gets_its_address_listens_at_one_port_for_all() -> None:
    numbers = count(FREE)
    ports = ports_of(container(asked=9000), WORKER, lambda: next(numbers))
    assert (ports.real("http"), ports.real(9000), ports.address) == (FREE, FREE, FREE)


def test_a_port_that_is_taken_is_refused_with_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        declared = (ContainerPort(containerPort=number),)
        ports = ports_of(container(ports=declared), PYTHON, free_port)
        assert not is_free(number)
        with pytest.raises(PortTakenError) as caught:
            demand_free(ports)
        demand_free(ports_of(container(str(number), ports=declared), PYTHON, free_port))
    assert f"port {number} of this machine is taken by gpuruntime dev itself" in str(caught.value)
    demand_free(ports)


def test_free_ports_are_of_the_range() -> None:
    assert free_port() in PORTS
