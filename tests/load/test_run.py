"""Whole runs: every request ends once, and what was wrong is told by its kind."""

from __future__ import annotations

import asyncio
import gc
import signal
import ssl
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.load.running import MODEL, against_emulator, emulated, loaded, server, small
from tests.load.test_connection import SIZED

from evenstep.emulator.faults import fault_of
from evenstep.errors import InputError
from evenstep.load.run import Interrupted, drive, timed
from evenstep.load.settings import LoadSettings
from evenstep.load.summary import counting

CERTIFICATES = Path(__file__).parents[1] / "gateway" / "certificates"


def kinds(outcome):
    return Counter(outcome.records.error)


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"endpoint": "chat"},
        {"prompts": "ids", "token_ids": True},
        {"closed": 3},
        {"rate": 500.0},
        {"dialect": "openai"},
        {"emulator": {"dialect": "sglang"}},
    ],
    ids=str,
)
def test_all_tokens_asked_for_come_back(asked):
    outcome, settings = against_emulator(**asked)
    records = outcome.records
    assert kinds(outcome) == {"": records.rows}
    if settings.dialect == "vllm":
        assert (records.output_tokens == records.asked_output_tokens).all()
    if not settings.chat:
        assert (records.prompt_tokens == records.asked_prompt_tokens).all()
    assert counting(outcome) == ("ids" if settings.token_ids else "usage")
    assert (records.started_s <= records.first_s).all() and (records.last_s <= records.ended_s).all()
    assert int(outcome.tokens.sum()) == int(records.output_tokens.sum())
    assert outcome.gaps.total <= int(records.output_tokens.sum()) - records.rows


def test_what_a_host_has_frozen_stays_frozen():
    gc.freeze()
    against_emulator(small(2))
    assert gc.get_freeze_count() > 0


def test_connections_are_kept_for_later_requests():
    outcome, _ = against_emulator(closed=2)
    assert outcome.connections <= 3


def test_users_are_never_more_than_asked_for():
    outcome, _ = against_emulator(small(20), closed=3)
    order = np.argsort(outcome.records.started_s)
    for row in order:
        begun = outcome.records.started_s[row]
        running = (outcome.records.started_s <= begun) & (outcome.records.ended_s > begun)
        assert int(running.sum()) <= 3


def test_turns_of_a_session_follow_each_other():
    outcome, _ = against_emulator(small(6, session=[1, 1, 2, 1, 2, 2]))
    started, ended = outcome.records.started_s, outcome.records.ended_s
    for before, after in ((0, 1), (1, 3), (2, 4), (4, 5)):
        assert started[after] >= ended[before]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("refuse", "cut"),
        ("die:after_tokens=1", "cut"),
        ("status:status=503", "status-503"),
        ("malformed:after_tokens=1", "bad-chunk"),
        ("html", "not-a-stream"),
        ("empty", "no-finish"),
        ("cut:after_tokens=1", "no-finish"),
        ("error-event:after_tokens=1", "error-event"),
        ("stall:after_tokens=1", "timeout"),
    ],
)
def test_each_way_an_engine_fails_is_told_by_its_kind(fault, kind):
    timeout_s = 0.3 if kind == "timeout" else 20.0
    outcome, _ = against_emulator(small(4, 0.0), faults=[fault_of(fault, 1)], timeout_s=timeout_s)
    assert kinds(outcome) == {"": 3, kind: 1}


def test_a_stream_that_loses_tokens_without_a_word_is_seen():
    """Four tokens where five were asked for."""

    async def go():
        async with server(lambda body: SIZED) as url:
            trace = small(1)
            trace.output_tokens[0] = 5
            return await loaded(url, trace)

    assert kinds(asyncio.run(go())[0]) == {"tokens-missing": 1}


def test_a_server_that_is_not_there_is_an_error_of_each_request():
    async def go():
        async with server(lambda body: None) as url:
            pass
        return await loaded(url, small(2))

    assert kinds(asyncio.run(go())[0]) == {"connect": 2}


@pytest.mark.parametrize(("trusted", "kind"), [(True, ""), (False, "connect")])
def test_a_server_with_a_certificate_is_asked_if_it_can_be_trusted(trusted, kind, monkeypatch):
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATES / "server.pem", CERTIFICATES / "server.key")

    async def go():
        async with server(lambda body: SIZED, context) as url:
            trace = small(2)
            trace.output_tokens[:] = 4
            return await loaded(url, trace)

    assert kinds(asyncio.run(go())[0]) == {kind: 2}


def test_a_host_may_leave_early():
    left = []

    def started(row, call):
        if row % 2:
            left.append(row)
            asyncio.get_running_loop().call_later(0.001, call.cancel)

    outcome, _ = against_emulator(small(10), started=started, speed=5.0)
    assert kinds(outcome)["cancelled"] >= 1
    assert kinds(outcome)["cancelled"] + kinds(outcome)[""] == 10


def test_whoever_watches_is_told_how_far_it_is():
    seen = []
    against_emulator(watch=seen.append)
    assert seen[0].total == 12
    assert seen[0].done <= seen[-1].done <= 12


def test_an_interrupted_run_has_the_results_until_then():
    def watch(at):
        if at.done:
            signal.raise_signal(signal.SIGINT)

    with emulated(slots=2, speed=1.0) as url, pytest.raises(Interrupted) as stop:
        drive(small(500, gap_s=0.02), LoadSettings(url=url, model=MODEL), watch)
    outcome = stop.value.outcome
    assert set(kinds(outcome)) == {"", "not-ended"}
    assert outcome.gaps.total and outcome.duration_s > 0


def test_an_interrupt_before_the_first_answer_has_no_results():
    with emulated(speed=1e-6) as url, pytest.raises(KeyboardInterrupt) as stop:
        drive(small(2), LoadSettings(url=url, model=MODEL), lambda at: signal.raise_signal(signal.SIGINT))
    assert not isinstance(stop.value, Interrupted)


def test_times_are_the_trace_s_by_the_speed_or_poisson_at_the_rate():
    trace = small(5, 1.0)
    assert timed(trace, LoadSettings(speed=4.0)).arrival_s.tolist() == [0, 0.25, 0.5, 0.75, 1.0]
    poisson = timed(trace, LoadSettings(rate=2.0))
    assert poisson.arrival_s[0] == 0 and poisson.arrival_s[-1] != 1.0
    assert "Poisson" in poisson.notes[-1]
    assert timed(trace, LoadSettings(closed=2)) is trace


def test_a_server_out_of_reach_is_one_clear_error():
    with pytest.raises(InputError, match=r"--url"):
        drive(small(), LoadSettings(url="http://127.0.0.1:1"))
    with pytest.raises(InputError, match=r"--url"):
        drive(small(), LoadSettings(url="http://no-such-host.invalid:80", model="m"))
