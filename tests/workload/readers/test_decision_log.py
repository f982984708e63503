"""Decision logs as traces."""

from __future__ import annotations

import os
import tracemalloc
from heapq import heappop
from pathlib import Path

import msgspec
import numpy as np
import pytest

from evenstep.dispatch import events
from evenstep.dispatch.checkpoint import dump
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.log.file import LogFile
from evenstep.dispatch.replay import replay
from evenstep.dispatch.settings import WorkerSpec
from evenstep.errors import InputError
from evenstep.workload.readers import decision_log
from evenstep.workload.reading import read_trace

SAMPLE = Path(__file__).parents[1] / "samples" / "decision_log.jsonl"


def framed(path: Path, **changed) -> Path:
    """The sample as msgpack, with `changed` fields of its header."""
    header, *rest = (msgspec.json.decode(line) for line in SAMPLE.read_bytes().splitlines())
    records = [msgspec.msgpack.encode(record) for record in ({**header, **changed}, *rest)]
    path.write_bytes(b"".join(len(r).to_bytes(4, "little") + r for r in records))
    return path


def test_served_requests_are_rows_with_the_lengths_they_turned_out_to_have():
    trace = read_trace(SAMPLE)
    assert trace.prompt_tokens.tolist() == [10, 20, 30, 50, 60, 70, 80, 100]
    assert trace.output_tokens.tolist() == [2, 3, 4, 6, 7, 8, 9, 11]
    assert trace.arrival_s.tolist() == [0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 3.5, 4.5]
    assert trace.request_class.tolist() == [1, 0, 1, 1, 0, 1, 0, 0]
    assert len(set(trace.prompt_key.tolist())) == 3 and set(trace.max_tokens.tolist()) == {20}
    assert trace.notes == ("2 requests left out: not served to the end.",)


def test_a_request_with_an_empty_answer_is_dropped_and_counted(tmp_path):
    path = tmp_path / "log.jsonl"
    text = SAMPLE.read_text()
    assert text.count('"output_tokens":3') == 1
    path.write_text(text.replace('"output_tokens":3', '"output_tokens":0'))
    trace = read_trace(path)
    assert trace.output_tokens.tolist() == [2, 4, 6, 7, 8, 9, 11]
    assert trace.notes[-1] == "1 request left out: an empty answer."


def test_both_encodings_are_the_same_trace(tmp_path):
    one, other = read_trace(SAMPLE), read_trace(framed(tmp_path / "log.evlog"))
    assert one.prompt_key.tolist() == other.prompt_key.tolist()
    assert one.arrival_s.tolist() == other.arrival_s.tolist() and one.notes == other.notes


@pytest.mark.parametrize("name", ["log.evlog", "log.jsonl"])
def test_a_log_that_is_cut_off_is_read_as_far_as_it_goes_and_the_rest_is_noted(tmp_path, name):
    path = tmp_path / name
    if name == "log.evlog":
        framed(path)
    else:
        path.write_bytes(SAMPLE.read_bytes())
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    found = read_trace(path)
    assert len(found) == 7
    assert "bytes at the end left out, no whole record: the log's writer was killed." in found.notes[-1]
    later = whole.replace(b'"part":0', b'"part":1').replace(b"\xa4part\x00", b"\xa4part\x01")
    assert later != whole
    path.with_stem("log.1").write_bytes(later)
    with pytest.raises(InputError, match=r"cut off|record is"):
        read_trace(path)


def test_skipped_lines_are_counted(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(SAMPLE.read_bytes().replace(b"\n", b"\nnonsense\n", 2))
    with pytest.raises(InputError, match="record"):
        read_trace(path)
    found = read_trace(path, skip_bad_rows=True)
    assert found.output_tokens.tolist() == [2, 3, 4, 6, 7, 8, 9, 11]
    assert "2 lines skipped: no record of a decision log." in found.notes


def test_later_parts_are_read_too_and_earlier_ones_are_not(tmp_path):
    lines = SAMPLE.read_text().splitlines()
    third = len(lines) // 3
    for name, part in (
        ("log.jsonl", lines[:third]),
        ("log.1.jsonl", lines[third : 2 * third]),
        ("log.2.jsonl", lines[2 * third :]),
    ):
        header = [] if name == "log.jsonl" else [lines[0].replace('"part":0', f'"part":{name[4]}')]
        (tmp_path / name).write_text("\n".join(header + part) + "\n")
    whole, there = read_trace(SAMPLE), read_trace(tmp_path / "log.jsonl")
    assert there.arrival_s.tolist() == whole.arrival_s.tolist()
    assert there.output_tokens.tolist() == whole.output_tokens.tolist()
    assert 0 < len(read_trace(tmp_path / "log.1.jsonl")) < len(whole)


@pytest.mark.parametrize("name", ["log.evlog", "log.jsonl"])
@pytest.mark.parametrize("cut", [5, None])
def test_a_part_that_another_program_cut_is_read_as_far_as_it_goes(tmp_path, name, cut):
    """`cut` bytes are gone at its end, or all. The log went on in a part that says so."""
    log = LogFile(path := tmp_path / name)
    dispatcher = Dispatcher("jsq", log=log)
    dispatcher.handle(events.WorkerAdded(now_s=0.0, spec=WorkerSpec(name="w", scraped=False)))

    def serve(request: int) -> None:
        dispatcher.handle(events.Arrived(now_s=1.0 * request, request=request, prompt_tokens=10))
        sent, *_ = dispatcher.handle(events.Tick(now_s=1.0 * request))
        dispatcher.produced(sent.row, 3)
        dispatcher.handle(events.Finished(now_s=request + 0.5, request=request, leg=sent.leg))

    for request in (1, 2, 3, 4):
        if request == 3:
            log.flush()
            os.truncate(path, path.stat().st_size - cut if cut else 0)
            log.give_up()
            log.begin_part(dump(dispatcher.parts), after_gap=True)
        serve(request)
    log.close()
    assert replay(path).gaps == (1 if cut else 0)
    found = read_trace(path)
    assert len(found) == (3 if cut else 2)
    assert any(note.startswith("1 gap in the log") for note in found.notes) == bool(cut)
    path.with_stem("log.2").write_bytes(b"")  # begun, and killed before its first record
    assert read_trace(path).arrival_s.tolist() == found.arrival_s.tolist()
    path.unlink()
    assert len(read_trace(path)) == 2 and replay(path).decisions == 2


def test_a_missing_file_is_not_replaced_by_one_that_is_no_part_of_a_log(tmp_path):
    (tmp_path / "trace.1.csv").write_text("prompt_tokens,output_tokens\n1,2\n")
    with pytest.raises(InputError, match="missing"):
        read_trace(tmp_path / "trace.csv")


def test_a_number_at_the_end_of_a_logs_name_is_not_the_number_of_a_part(tmp_path):
    """A log begins in the first file, the second is its next part, and another log begins in the third."""
    first, second, third = (tmp_path / f"log-3.{name}.jsonl" for name in ("5", "5.1", "5.2"))
    lines = SAMPLE.read_text().splitlines(keepends=True)
    first.write_text("".join(lines[:9]))
    second.write_text("".join([lines[0].replace('"part":0', '"part":1'), *lines[9:]]))
    third.write_text("".join(lines).replace("100", "101"))
    (tmp_path / "log-3.6.jsonl").write_text("no log")
    assert read_trace(first).prompt_tokens.tolist() == read_trace(SAMPLE).prompt_tokens.tolist()
    assert read_trace(third).prompt_tokens.tolist()[-1] == 101


@pytest.mark.parametrize("size", [0x27B, 0x227B, 0x7B20])
def test_a_log_is_msgpack_even_if_the_length_of_its_header_looks_like_a_brace(tmp_path, size):
    path = tmp_path / "log.evlog"
    least = int.from_bytes(framed(path, evenstep="").read_bytes()[:4], "little")
    framed(path, evenstep="x" * (size - least - 2))
    assert int.from_bytes(path.read_bytes()[:4], "little") == size
    assert read_trace(path).output_tokens.tolist() == [2, 3, 4, 6, 7, 8, 9, 11]


def test_requests_of_one_task_are_a_session_in_the_order_of_their_ends(tmp_path):
    """Task 7: call 1 ends at 2, then 2 and 3 follow it in parallel, 4 follows 3, which ends last; call 5 has no task."""
    times = [("arrived", 1, 1.0), ("done", 1, 2.0), ("arrived", 5, 2.2), ("arrived", 2, 2.5), ("arrived", 3, 2.5)]
    times += [("done", 5, 3.0), ("done", 2, 4.0), ("done", 3, 5.0), ("arrived", 4, 5.5), ("done", 4, 6.0)]
    lines = [SAMPLE.read_text().splitlines()[0]]
    for kind, request, now_s in times:
        if kind == "arrived":
            record = {"event": kind, "request": request, "prompt_tokens": 1, "now_s": now_s}
            lines.append(msgspec.json.encode(record if request == 5 else {**record, "task": 7}).decode())
        else:
            lines.append(msgspec.json.encode({"event": "finished", "request": request, "now_s": now_s}).decode())
            done = {"event": "done", "request": request, "prompt_tokens": 10, "output_tokens": request}
            lines.append(msgspec.json.encode(done).decode())
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines) + "\n")
    trace = read_trace(path)
    assert trace.output_tokens.tolist() == [1, 5, 2, 3, 4]
    assert trace.column("after").tolist() == [-1, -1, 0, 0, 3]
    assert trace.column("think_s").tolist() == [0.0, 0.0, 0.5, 0.5, 0.5]
    session = trace.column("session").tolist()
    assert session[1] == -1 and len({session[k] for k in (0, 2, 3, 4)}) == 1 and session[0] >= 0


def test_each_request_follows_the_one_of_its_task_that_ended_last_before_it():
    random = np.random.default_rng(5)
    for _ in range(50):
        tasks = random.integers(0, 4, 60)
        arrival_s = np.sort(random.integers(0, 30, 60)).astype(float)  # with ties
        ended_s = arrival_s + random.integers(0, 9, 60)
        found = decision_log._workflow(tasks, arrival_s, ended_s)
        for row, task in enumerate(tasks.tolist()):
            above = [k for k in range(row) if task and tasks[k] == task and ended_s[k] <= arrival_s[row]]
            follows = max(above, key=lambda k: (ended_s[k], -k), default=-1)
            assert found["after"][row] == follows
            assert found["think_s"][row] == (arrival_s[row] - ended_s[follows] if above else 0.0)


def test_the_links_of_one_long_task_look_at_each_end_a_few_times(monkeypatch):
    looked = 0

    def counted(heap):
        nonlocal looked
        looked += 1
        return heappop(heap)

    monkeypatch.setattr(decision_log, "heappop", counted, raising=False)
    arrival_s = np.arange(2000.0)
    found = decision_log._workflow(np.ones(2000, np.int64), arrival_s, arrival_s + 0.5)
    assert found["after"].tolist() == list(range(-1, 1999)) and 0 < looked < 2000


def test_the_prompt_blocks_of_arrivals_are_not_kept():
    arrivals = ((n, {"event": "arrived", "request": n, "now_s": 1.0, "blocks": [n] * 1000}) for n in range(1000))
    arrived: list = []
    tracemalloc.start()
    try:
        decision_log._collect(SAMPLE, arrivals, False, arrived, {})
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(arrived) == 1000 and kept < 1_000_000
