"""Defects of commands in units and of forwards; a test of the gateway has to find each of them."""

from typing import Final

from tests.proofs.simulation.mutations.mutation import Mutation

_TESTS: Final = "tests/rooms/gateway/containers"

CONTAINERS: Final = (
    Mutation(
        "an undeclared port is reached through the Service",
        "gpuruntime.gateway.containers.port_dialer",
        "            if declared_port(unit, str(port)) is not None:\n",
        "            if True:\n",
        f"{_TESTS}/test_forward_session.py"
        "::test_an_undeclared_port_is_reached_by_a_relay_and_never_by_the_service",
    ),
    Mutation(
        "a caller names the container",
        "gpuruntime.gateway.containers.exec_request",
        '_KNOWN: Final = ("command", "tty", "columns", "rows")',
        '_KNOWN: Final = ("command", "tty", "columns", "rows", "container")',
        f"{_TESTS}/test_exec_session.py::test_a_faulty_request_reaches_no_pod",
    ),
    Mutation(
        "the container is another one than the unit's",
        "gpuruntime.gateway.containers.exec_request",
        "container=RUNTIME_CONTAINER",
        'container="worker"',
        f"{_TESTS}/test_exec_session.py::test_a_session_runs_the_command_in_the_units_container",
    ),
    Mutation(
        "the end of the input is not sent",
        "gpuruntime.gateway.containers.exec_messages",
        "    if message == _END_OF_INPUT:\n        return message\n",
        "    if message == _END_OF_INPUT:\n        return None\n",
        f"{_TESTS}/test_exec_messages.py::test_what_a_caller_may_send_passes_as_it_is",
    ),
    Mutation(
        "a command that was cut off has ended well",
        "gpuruntime.gateway.containers.exec_session",
        "    if not status:\n        return _CUT\n",
        '    status = status or b\'\\x03{"status":"Success"}\'\n',
        f"{_TESTS}/test_exec_session.py::test_a_command_that_is_cut_off_has_no_status",
    ),
)
