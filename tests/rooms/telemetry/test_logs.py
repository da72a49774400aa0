import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from gpuruntime.telemetry import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_each_event_is_one_json_line_with_its_keys(stream: io.StringIO) -> None:
    logs.configure(level="info", is_json=True, stream=stream)
    structlog.get_logger().info("unit created", unit="a/b")
    line = json.loads(stream.getvalue())
    assert line["event"] == "unit created"
    assert line["unit"] == "a/b"
    assert line["level"] == "info"


def test_lines_below_the_level_are_not_written(stream: io.StringIO) -> None:
    logs.configure(level="warning", is_json=True, stream=stream)
    structlog.get_logger().info("quiet")
    assert stream.getvalue() == ""


def test_a_traceback_stays_inside_its_line(stream: io.StringIO) -> None:
    logs.configure(level="info", is_json=True, stream=stream)
    try:
        raise ValueError("broken")
    except ValueError:
        structlog.get_logger().exception("crashed")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: broken" in json.loads(line)["exception"]


def test_a_line_of_a_library_has_the_same_form(stream: io.StringIO) -> None:
    logs.configure(level="info", is_json=True, stream=stream)
    logging.getLogger("somelibrary").warning("odd %s", "thing")
    assert json.loads(stream.getvalue())["event"] == "odd thing"


def test_request_lines_of_chatty_libraries_are_left_out(stream: io.StringIO) -> None:
    logs.configure(level="debug", is_json=True, stream=stream)
    logging.getLogger("aiohttp.access").info("GET /")
    assert stream.getvalue() == ""
