"""Records become lines, and nobody waits for a slow terminal."""

from __future__ import annotations

import io
import json
import logging
import math
import threading

import pytest

from evenstep.gateway.config.sections import Log
from evenstep.gateway.operate.logs import access, logging_to
from evenstep.gateway.serve.ended import Ended

LOG = logging.getLogger("evenstep.gateway")


def test_json_lines_hold_the_message_and_its_fields():
    out = io.StringIO()
    with logging_to(Log(format="json"), out):
        LOG.warning("worker %s", "left", extra={"worker": 'a "b"', "age_s": 1.23456789, "never": float("nan")})
    (line,) = out.getvalue().splitlines()
    found = json.loads(line)
    assert found["time"].endswith("Z") and found.pop("time")
    assert found == {
        "level": "warning",
        "logger": "evenstep.gateway",
        "message": "worker left",
        "worker": 'a "b"',
        "age_s": 1.234568,
    }


def test_what_a_record_carries_in_any_other_way_is_shown_too():
    out = io.StringIO()
    with logging_to(Log(format="json"), out):
        LOG.info("lost", extra={"worker": "a", "kind": "stall"})
    assert json.loads(out.getvalue())["kind"] == "stall"


def test_text_is_one_line_a_record_whatever_it_holds():
    out = io.StringIO()
    with logging_to(Log(), out):
        LOG.info("two\nlines", extra={"who": "a b", "at": "x\ny"})
    (line,) = out.getvalue().splitlines()
    assert line.endswith('info    two lines who="a b" at="x\\ny"')


def test_a_level_holds_until_it_is_changed():
    out = io.StringIO()
    with logging_to(Log(level="error"), out) as logs:
        LOG.info("one")
        logs.reload(Log(level="debug", format="json"))
        LOG.debug("two")
    assert "one" not in out.getvalue() and '"two"' in out.getvalue()


def test_a_traceback_follows_its_line():
    for form in ("json", "text"):
        out = io.StringIO()
        with logging_to(Log(format=form), out):
            try:
                raise ValueError("of ours")
            except ValueError:
                LOG.exception("bug")
        assert "ValueError: of ours" in out.getvalue()


def test_a_request_that_is_over_is_one_line_without_text():
    out = io.StringIO()
    one = Ended(
        "r1",
        "complete",
        200,
        model="m",
        tenant="t",
        worker="w",
        output_tokens=3,
        arrived_s=1.0,
        sent_s=1.5,
        first_s=2.0,
        ended_s=3.0,
    )
    with logging_to(Log(format="json"), out):
        access(one)
    found = json.loads(out.getvalue())
    assert (found["request_id"], found["wait_s"], found["ttft_s"], found["seconds"]) == ("r1", 0.5, 1.0, 2.0)
    assert not {"prompt", "text", "body", "key"} & set(found)


@pytest.mark.parametrize("ended_s", [math.nan, 3.0])
def test_an_access_line_says_the_same_as_text_and_as_json(ended_s):
    one = Ended("r 1", "error", 502, '/v1/"x', model="m\n", output_tokens=3, tries=2, arrived_s=1.0, ended_s=ended_s)
    lines: list[str] = []
    for form in ("json", "text"):
        out = io.StringIO()
        with logging_to(Log(format=form), out):
            access(one)
        lines.append(out.getvalue())
    said = {key: value for key, value in json.loads(lines[0]).items() if key not in ("time", "level", "logger", "message")}
    said |= {key: f"{value:.6f}" for key, value in said.items() if isinstance(value, float)}
    quoted = {key: json.dumps(value) if value in ("r 1", '/v1/"x', "m\n", "") else value for key, value in said.items()}
    assert lines[1].split(" request ", 1)[1].strip() == " ".join(f"{key}={value}" for key, value in quoted.items())


def test_a_stream_that_takes_nothing_loses_lines_and_holds_nobody_up(monkeypatch):
    monkeypatch.setattr("evenstep.gateway.operate.logs._WAITING", 3)
    gate, out = threading.Event(), io.StringIO()
    write = out.write
    out.write = lambda text: (gate.wait(10), write(text))[1]  # type: ignore[method-assign]
    with logging_to(Log(), out) as logs:
        for number in range(10):
            LOG.info("line %d", number)
        lost = logs.dropped
        gate.set()
    assert lost >= 6
    assert len(out.getvalue().splitlines()) == 10 - lost
