"""Whole runs: every request ends once, and what was wrong is told by its kind."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import signal
import ssl
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from tests import clock
from tests.load.running import MODEL, against_emulator, emulated, loaded, server, small
from tests.load.test_answer import GOOD
from tests.load.test_connection import HEAD, SIZED
from tests.sim.network.networks import call, one_engine

from evenstep.emulator.faults import fault_of
from evenstep.errors import InputError
from evenstep.load.run import Interrupted, Run, drive, timed
from evenstep.load.schedule import Workflow
from evenstep.load.settings import LoadSettings
from evenstep.load.summary import counting, summary
from evenstep.request import Trace
from evenstep.sim.network.tasks import draw

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


def test_what_a_run_froze_is_not_frozen_after_it():
    gc.unfreeze()
    during = []
    try:
        against_emulator(small(2), started=lambda row, call: during.append(gc.get_freeze_count()))
        assert min(during) > 0 and gc.get_freeze_count() == 0
    finally:
        gc.freeze()  # as the session began; else each later run collects the whole of it


def test_a_run_that_is_over_leaves_no_timer_and_no_connection_in_its_host_s_loop():
    async def go():
        async with server(lambda body: SIZED) as url:
            run = Run(timed(small(1), LoadSettings()), LoadSettings(url=url), "m")
            await run.whole()
            assert run._ticking.cancelled() and not run._client._open

    asyncio.run(go())


@pytest.mark.parametrize("key", [None, "sk"])
def test_a_workflow_sends_its_calls_with_their_model_task_and_priority_and_the_key_if_there_is_one(key):
    drawn = draw(one_engine({"plan": call("one"), "act": call("one", after=["plan"])}, count=1))
    drawn.arrival_s[0] = 0.0
    flow, seen = Workflow(drawn, ["m0", "m1"], np.array([0.0, 2.5])), []

    async def serve(reader, writer):
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                body = await reader.readexactly(int(re.search(r"Content-Length: (\d+)", head)[1]))
                said = [line for line in head.splitlines() if line.startswith(("X-Evenstep-", "Authorization"))]
                seen.append((json.loads(body)["model"], *said))
                writer.write(SIZED)
        writer.close()

    async def go():
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
            url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            trace = Trace(drawn.prompt, np.full(2, 4), name="two")
            return await asyncio.to_thread(drive, trace, LoadSettings(url=url, model="any", api_key=key), None, flow)

    assert kinds(asyncio.run(go())) == {"": 2}
    keys = ["Authorization: Bearer sk"] if key else []
    assert [(model, sorted(lines)) for model, *lines in seen] == [
        ("m0", [*keys, "X-Evenstep-Priority: 0.0", "X-Evenstep-Task: task-0"]),
        ("m1", [*keys, "X-Evenstep-Priority: 2.5", "X-Evenstep-Task: task-0"]),
    ]


def test_a_workflow_that_is_out_of_time_ends_the_run_without_the_calls_to_come():
    drawn = draw(one_engine({"late": call("one", delay_s=3600.0)}, count=1))
    flow = Workflow(drawn, ["m"], np.zeros(1), until_s=0.0)
    found = drive(
        Trace(drawn.prompt, drawn.output, name="one"), LoadSettings(url="http://127.0.0.1:1", model="m"), None, flow
    )
    assert kinds(found) == {"not-ended": 1} and np.isnan(found.records.started_s[0]) and np.isnan(found.duration_s)


def test_a_run_without_a_request_is_over_at_once_and_was_allowed_more_open_files():
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1000), hard))
    found = drive(small(0), LoadSettings(url="http://127.0.0.1:1", model="m", closed=2))
    assert found.records.rows == found.connections == 0 and np.isnan(found.duration_s)
    assert summary(found, LoadSettings())["completed"] == 0
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1000 or hard <= 1000


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


def test_requests_start_when_they_are_due_and_progress_is_told_five_times_a_second():
    seen = []

    async def go():
        async with server(lambda body: SIZED) as url:
            trace = small(3, 1.5)
            trace.output_tokens[:] = 4
            return await loaded(url, trace, watch=seen.append)

    before_s = time.process_time()
    outcome, _ = clock.run(go())
    assert 0 <= outcome.cpu_s <= time.process_time() - before_s
    assert (outcome.gap_sum_s, outcome.gap_squares) == (0.0, 0.0), "each answer is one read"
    records = outcome.records
    assert kinds(outcome) == {"": 3} and records.due_s.tolist() == [0.0, 1.5, 3.0]
    assert records.started_s == pytest.approx(records.due_s, abs=1e-6)
    assert len(seen) in (15, 16) and [at.now_s for at in seen] == pytest.approx(0.2 * np.arange(len(seen)), abs=1e-6)
    assert [(at.done, at.failed, at.running, at.total, at.tokens) for at in (seen[0], seen[7], seen[14])] == [
        (0, 0, 0, 3, 0),
        (1, 0, 0, 3, 4),
        (2, 0, 0, 3, 8),
    ]
    assert outcome.lag_s.size // 10 in (14, 15) and outcome.lag_s == pytest.approx(0.0, abs=1e-6)


def test_requests_without_an_answer_end_when_their_time_is_up():
    """The run lasts from the first start, 3 s after its own, to the last end."""
    seen = []

    async def go():
        async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0) as silent:
            settings = LoadSettings(url=f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}", timeout_s=7.0)
            trace = small(2)
            trace.arrival_s[:] = 3.0, 3.5
            return await Run(trace, settings, "m", seen.append).whole()

    outcome = clock.run(go())
    assert kinds(outcome) == {"timeout": 2} and outcome.records.started_s == pytest.approx([3.0, 3.5])
    assert outcome.duration_s == pytest.approx(7.5)
    assert (seen[-1].done, seen[-1].failed, seen[-1].running) == (1, 1, 1)


def test_gaps_are_summed_over_all_answers_and_tokens_are_counted_when_they_come():
    """Chunks at 0, 0.6 and 2.1 s with 1, 2 and 1 tokens: gaps of 0.6 and 1.5 s in each of two answers."""

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"\r\n")
        for event, wait_s in zip(GOOD, (0.6, 1.5, 0.0, 0.0, 0.0), strict=True):
            writer.write(event)
            await asyncio.sleep(wait_s)
        writer.close()

    async def go():
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
            trace = small(2, 0.0)
            trace.output_tokens[:] = 4
            return await loaded(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", trace)

    outcome, _ = clock.run(go())
    assert kinds(outcome) == {"": 2}
    assert (outcome.gaps.total, outcome.gap_sum_s, outcome.gap_squares) == pytest.approx((4, 4.2, 5.22))
    assert outcome.tokens.tolist() == [2, 0, 4, 0, 0, 0, 0, 0, 2]


def test_the_processor_time_is_of_the_same_span_as_the_duration_if_no_answer_ends_for_long(monkeypatch):
    """Such a run, interrupted, blamed a client of one thread for using 401 % of a core."""

    def always_busy():
        return time.monotonic()  # the clock that jumps, which is set later

    monkeypatch.setattr(time, "process_time", always_busy)
    seen = []

    async def go():
        async with server(lambda body: SIZED) as url:
            trace = small(2, 1000.0)
            trace.output_tokens[:] = 4
            settings = LoadSettings(url=url, model=MODEL)
            run = Run(trace, settings, MODEL, watch=lambda at: seen.append(run.outcome()) if at.done and not seen else None)
            return await run.whole()

    whole = clock.run(go())
    assert (seen[0].duration_s, seen[0].cpu_s) == pytest.approx((0.0, 0.0), abs=0.01)
    assert (whole.duration_s, whole.cpu_s) == pytest.approx((1000.0, 1000.0), abs=0.01)


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
    trace.arrival_s[:] += 8.0
    assert timed(trace, LoadSettings(speed=0.5)).arrival_s.tolist() == [0, 2, 4, 6, 8]
    poisson = timed(trace, LoadSettings(rate=2.0))
    assert poisson.arrival_s[0] == 0 and poisson.arrival_s[-1] != 1.0
    assert "Poisson" in poisson.notes[-1]
    assert timed(trace, LoadSettings(closed=2)) is trace
    timeless = Trace(trace.prompt_tokens, trace.output_tokens)
    assert timed(timeless, LoadSettings()) is timeless


def test_a_server_out_of_reach_is_one_clear_error():
    with pytest.raises(InputError, match=r"--url"):
        drive(small(), LoadSettings(url="http://127.0.0.1:1"))
    with pytest.raises(InputError, match=r"^evenstep load: --url is "):
        drive(small(), LoadSettings(url="http://no-such-host.invalid:80", model="m"))
