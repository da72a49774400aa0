"""Queries of exec requests: what they ask for, and every fault in words."""

from typing import Any
from urllib.parse import quote

import pytest
from yarl import URL

from gpuruntime.gateway.containers.exec_request import (
    LOGIN_SHELL,
    ExecRequest,
    parse_exec_request,
)
from gpuruntime.gateway.errors import GatewayError


def parsed(text: str) -> ExecRequest:
    return parse_exec_request(URL(f"/?{text}", encoded=True).query)


ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "nothing": ("", {"arguments": LOGIN_SHELL}),
    "a command in order": (
        "command=sh&command=-c&command=exit%207",
        {"arguments": ("sh", "-c", "exit 7")},
    ),
    "an empty argument": ("command=printf&command=", {"arguments": ("printf", "")}),
    "a terminal": ("tty=true", {"arguments": LOGIN_SHELL, "has_terminal": True}),
    "no terminal": ("tty=false", {"arguments": LOGIN_SHELL}),
    "a terminal with its size": (
        "tty=true&columns=101&rows=33",
        {"arguments": LOGIN_SHELL, "has_terminal": True, "size": (101, 33)},
    ),
    "the largest terminal": (
        "tty=true&columns=65535&rows=1",
        {"has_terminal": True, "size": (65_535, 1)},
    ),
}


@pytest.mark.parametrize(("text", "members"), ASKED.values(), ids=ASKED)
def test_a_query_is_read(text: str, members: dict[str, Any]) -> None:
    assert parsed(text) == ExecRequest(**members)


def test_a_command_runs_in_the_container_of_the_unit() -> None:
    command = parsed("command=ls&tty=true").command
    assert (command.container, command.arguments, command.has_terminal) == (
        "runtime",
        ("ls",),
        True,
    )


FAULTY = {
    "another container": ("container=worker", "'container' is no parameter: known are command"),
    "65 arguments": ("&".join(["command=x"] * 65), "65 arguments and may have 64"),
    "128 KiB": (f"command={'x' * 131_072}", "131072 bytes and may have 65536"),
    "a NUL": ("command=a%00b", "contains NUL"),
    "a terminal that is maybe": ("tty=1", "tty must be true or false"),
    "two terminals": ("tty=true&tty=true", "tty is given more than once"),
    "columns 0": ("tty=true&columns=0&rows=24", "two numbers from 1 to 65535"),
    "a million rows": ("tty=true&columns=80&rows=1000000", "two numbers from 1 to 65535"),
    "a negative size": ("tty=true&columns=-80&rows=24", "two numbers from 1 to 65535"),
    "digits of another script": (
        f"tty=true&columns={quote('٣')}&rows=24",
        "two numbers from 1 to 65535",
    ),
    "columns alone": ("tty=true&columns=80", "two numbers from 1 to 65535"),
    "a size without a terminal": ("columns=80&rows=24", "are for a terminal: add tty=true"),
}


@pytest.mark.parametrize(("text", "words"), FAULTY.values(), ids=FAULTY)
def test_a_faulty_query_is_a_bad_request(text: str, words: str) -> None:
    with pytest.raises(GatewayError, match=words) as caught:
        parsed(text)
    assert caught.value.status == 400


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(GatewayError, match=r"container.*; tty must be"):
        parsed("container=worker&tty=x")
