"""A decision log on a disk that fails: it closes, says so once, and goes on with a part that replays by itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dispatch.storm import Storm
from tests.gateway.full_disk import no_file_beyond
from tests.gateway.running import DONE, END, EVENTS, chunk, engine, framed, raw, request, serving, until

from evenstep.dispatch.checkpoint import dump
from evenstep.dispatch.log.file import LogFile, cut_off, part_of
from evenstep.dispatch.replay import replay
from evenstep.gateway.config.sections import Decisions
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.serve.decision_log import DecisionLog, log_of

CLOSE = "Connection: close\r\n"
BODY = {"model": "m", "prompt": "x", "max_tokens": 1, "stream": True}


async def one_token(number, head, body, writer):
    writer.write(EVENTS + framed(chunk(" a", 1, "length")) + framed(DONE) + END)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["log.jsonl", "log.evlog"])
@given(st.integers(0, 10_000), st.integers(0, 40), st.booleans())
@settings(max_examples=10)
def test_a_log_that_fails_anywhere_goes_on_later_and_replays(tmp_path_factory, name, seed, kilobytes, split):
    path = tmp_path_factory.mktemp("full") / name
    now_s = [0.0]
    log = DecisionLog(LogFile(path), retry_s=60.0, clock=lambda: now_s[0])
    with no_file_beyond(kilobytes * 1024):
        storm = Storm(seed, split, log=log)
        for _ in range(100):
            storm.step()
    while not log.why:  # it fits
        with no_file_beyond(kilobytes * 1024):
            storm.step()
    assert log.failures == 1
    assert cut_off(path) == 0 if path.exists() else kilobytes < 9
    begun = storm.dispatcher.parts.deciding.decisions
    now_s[0] = 59.0
    storm.step()
    assert log.why
    now_s[0] = 60.0
    for _ in range(40):
        storm.step()
    assert (log.why, log.failures) == ("", 1)
    storm.calm()
    log.close()
    last = part_of(path, 1)
    made = storm.dispatcher.parts.deciding.decisions
    found = replay(last)
    assert found.difference is None and found.events and found.decisions <= made - begun
    whole = replay(path)
    assert whole.difference is None and whole.decisions >= found.decisions
    assert whole.gaps == path.exists()


def test_a_disk_that_stays_full_is_tried_again_each_time_and_said_once(tmp_path, caplog):
    path, now_s = tmp_path / "log.evlog", [0.0]
    log = DecisionLog(LogFile(path), retry_s=60.0, clock=lambda: now_s[0])
    with caplog.at_level(logging.INFO, "evenstep.gateway"):
        with no_file_beyond(9_000):
            storm = Storm(3, False, log=log)
            for minute in range(5):
                now_s[0] = 60.0 * minute
                for _ in range(60):
                    storm.step()
        assert log.why and log.failures == 1
        assert len(dump(storm.dispatcher.parts)) > 9_000, "no part may fit on this disk: take another seed or size"
        now_s[0] = 360.0
        storm.step()
        storm.step()
        assert not log.why
        log.close()
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "the decision log failed and is closed; requests are served as before",
        "the decision log is written again",
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.1.evlog", "log.evlog"]


def test_a_log_begun_anew_over_an_older_one_deletes_its_parts_says_so_once_and_replays(tmp_path, caplog):
    path = tmp_path / "log.evlog"
    for steps, part_bytes in ((60, 2_000), (5, 0)):
        log = DecisionLog(LogFile(path, part_bytes=part_bytes), 60.0)
        with caplog.at_level(logging.INFO, "evenstep.gateway"):
            storm = Storm(3, False, log=log)
            for _ in range(steps):
                storm.step()
        log.close()
        assert not part_bytes or (len([*tmp_path.iterdir()]) > 2 and not caplog.records)
    (record,) = caplog.records
    assert record.getMessage() == "later parts of an older decision log at this path were deleted"
    assert [*tmp_path.iterdir()] == [path] and replay(path).difference is None


def test_an_older_log_is_not_read_as_the_start_of_one_whose_first_part_failed(tmp_path):
    path, now_s = tmp_path / "log.evlog", [0.0]
    older = DecisionLog(LogFile(path, part_bytes=2_000), 60.0)
    storm = Storm(3, False, log=older)
    for _ in range(60):
        storm.step()
    older.close()
    path.unlink()
    path.mkdir()
    log = DecisionLog(LogFile(path), 60.0, lambda: now_s[0])
    storm = Storm(4, False, log=log)
    storm.step()
    assert log.why == "Is a directory"
    path.rmdir()
    now_s[0] = 60.0
    for _ in range(20):
        storm.step()
    log.close()
    assert [*tmp_path.iterdir()] == [part_of(path, 1)] and replay(path).difference is None


def test_a_folder_that_goes_away_and_comes_back_costs_no_more_than_records(tmp_path):
    folder, now_s = tmp_path / "logs", [0.0]
    folder.mkdir()
    log = DecisionLog(LogFile(folder / "log.evlog", part_bytes=500), 60.0, lambda: now_s[0])
    storm = Storm(3, False, log=log)
    storm.step()
    folder.rename(tmp_path / "elsewhere")
    for _ in range(50):
        storm.step()
    assert log.why == "No such file or directory"
    folder.mkdir()
    now_s[0] = 60.0
    for _ in range(50):
        storm.step()
    log.close()
    assert not log.why and replay(folder / "log.evlog").difference is None


@pytest.mark.slow
@pytest.mark.parametrize("part_bytes", [0, 4_000])
@pytest.mark.parametrize("folder_too", [False, True])
def test_a_log_that_is_deleted_under_its_writer_fails_and_goes_on_later(tmp_path, caplog, folder_too, part_bytes):
    folder, now_s = tmp_path / "logs", [0.0]
    folder.mkdir()
    log = DecisionLog(LogFile(folder / "log.evlog", part_bytes), 60.0, lambda: now_s[0])
    storm = Storm(3, False, log=log)
    for _ in range(200):
        storm.step()
    last = part_of(folder / "log.evlog", log._file.part)
    assert not log.why and last.stat().st_size
    for file in folder.iterdir():
        if folder_too or file == last:
            file.unlink()
    if folder_too:
        folder.rmdir()
    with caplog.at_level(logging.INFO, "evenstep.gateway"):
        for now_s[0] in (0.0, 60.0, 120.0):
            for _ in range(200):
                storm.step()
            assert bool(log.why) == (folder_too or now_s[0] == 0.0) and log.failures == 1
        folder.mkdir(exist_ok=True)
        now_s[0] = 180.0
        for _ in range(200):
            storm.step()
    log.close()
    assert [record.getMessage() for record in caplog.records] == [
        "the decision log failed and is closed; requests are served as before",
        "the decision log is written again",
    ]
    found = replay(folder / "log.evlog")
    assert found.difference is None and found.decisions and not log.why
    assert found.gaps == (not folder_too and part_bytes > 0)  # parts before the deleted one are read with those after it


def test_a_log_deleted_before_the_stop_is_told_at_the_stop(tmp_path):
    path = tmp_path / "log.evlog"
    log = DecisionLog(LogFile(path), 60.0)
    Storm(3, False, log=log).step()
    path.unlink()
    log.close()
    assert (log.why, log.failures) == ("No such file or directory", 1)


def test_another_file_in_its_place_is_left_alone(tmp_path):
    path = tmp_path / "log.evlog"
    log = DecisionLog(LogFile(path), 60.0)
    Storm(3, False, log=log).step()
    path.rename(tmp_path / "moved")
    path.write_bytes(b"")
    log.close()
    assert log.why == "another file is at its path" and path.exists()


@pytest.mark.parametrize("name", ["log.jsonl", "log.evlog"])
@pytest.mark.parametrize("change", ["cut", "lengthened"])
def test_a_log_that_another_process_cuts_or_lengthens_goes_on_in_a_new_part(tmp_path, name, change):
    path, now_s = tmp_path / name, [0.0]
    log = DecisionLog(LogFile(path), 60.0, lambda: now_s[0])
    storm = Storm(3, False, log=log)
    log._file.flush()
    if change == "cut":  # as logrotate's copytruncate does
        os.truncate(path, 0)
    else:
        path.write_bytes(path.read_bytes() + b"\0")
    for _ in range(300):
        storm.step()
    assert log.why == "another process cut it or wrote to it"
    now_s[0] = 60.0
    for _ in range(100):
        storm.step()
    log.close()
    found = replay(path)
    assert found.difference is None and found.decisions and not log.why
    assert path.stat().st_size == 0 or change == "lengthened"


def test_an_older_log_is_no_part_of_one_that_could_not_be_opened_at_first(tmp_path, monkeypatch):
    path, now_s = tmp_path / "log.evlog", [0.0]
    for seed in (3, 4):
        log = DecisionLog(LogFile(path), 60.0, lambda: now_s[0])
        with monkeypatch.context() as patched:
            if path.exists():
                patched.setattr(Path, "open", lambda *_, **__: (_ for _ in ()).throw(OSError(24, "Too many open files")))
            storm = Storm(seed, False, log=log)
        assert log.why == ("" if seed == 3 else "Too many open files")
        now_s[0] += 60.0
        for _ in range(20):
            storm.step()
        log.close()
    assert [*tmp_path.iterdir()] == [part_of(path, 1)] and replay(path).difference is None


def test_a_log_whose_last_bytes_do_not_fit_is_closed_all_the_same(tmp_path):
    log = DecisionLog(LogFile(tmp_path / "log.evlog"), 60.0)
    Storm(3, False, log=log).step()
    with no_file_beyond(0):
        log.close()
    assert log.why == "File too large"


def test_several_models_have_several_logs(tmp_path):
    assert log_of(Decisions(), "m", []) is None
    settings = Decisions(path=str(tmp_path / "a.log"), part_bytes=5, keep=2, retry_s=7.0)
    logs: list[DecisionLog] = []
    for model in ("main", "org/m-1.5", "org/m-1_5", "org.m-1_5-2", "org.m-1.5"):
        logs.append(log_of(settings, model, logs))
    assert [log.path for log in logs] == [
        str(tmp_path / name)
        for name in ("a.log", "a-org_m-1_5.log", "a-org_m-1_5-2.log", "a-org_m-1_5-2-2.log", "a-org_m-1_5-3.log")
    ]


def test_models_whose_names_look_alike_in_a_file_name_have_a_whole_log_each(tmp_path):
    async def story():
        models = ("main", "org/m-1.5", "org/m-1_5")
        log = Decisions(path=str(tmp_path / "a.evlog"), plain_keys=True)
        async with contextlib.AsyncExitStack() as stack:
            engines = [await stack.enter_async_context(engine(one_token)) for _ in models]
            workers = [Worker(one.url, models=[model]) for one, model in zip(engines, models, strict=True)]
            server = await stack.enter_async_context(serving(*workers, decisions=log))
            for model in models:
                assert b"[DONE]" in await raw(server, request({**BODY, "model": model}, headers=CLOSE))

    asyncio.run(asyncio.wait_for(story(), 60))
    assert len([*tmp_path.iterdir()]) == 3
    for path in tmp_path.iterdir():
        found = replay(path)
        assert found.difference is None and found.decisions == 1


def test_a_gateway_serves_on_while_its_log_cannot_be_written_and_says_so(tmp_path):
    path = tmp_path / "decisions.evlog"

    async def ready(server):
        return await raw(server, request(b"", "/readyz", "GET", CLOSE))

    async def story():
        log = Decisions(path=str(path), plain_keys=True, retry_s=0.01)
        async with (
            engine(one_token) as one,
            engine(one_token) as two,
            serving(one.url, Worker(url=two.url, name="b"), decisions=log) as server,
        ):

            async def ask():
                answer = await raw(server, request(BODY, headers=CLOSE))
                assert b" 200 OK" in answer and b"[DONE]" in answer

            pool = server.gateway.pools.all[0]
            assert (await ready(server)).endswith(b"\r\n\r\nok")
            with no_file_beyond(0):
                while not pool.log.why:
                    await ask()
                await asyncio.gather(*(ask() for _ in range(20)))
                found = server.gateway.snapshot()["gateway"]
                assert found["decision_log_failed"] == found["decision_log_failures_total"] == {pool.name: 1}
                said = await ready(server)
                assert b" 200 OK" in said and b"the decision log of m failed: File too large" in said
            await until(lambda: pool.log._clock() >= pool.log._again_s)
            await ask()
            assert not pool.log.why and (await ready(server)).endswith(b"ok")
            await ask()

    asyncio.run(asyncio.wait_for(story(), 60))
    found = replay(path)
    assert found.difference is None and found.decisions >= 1
