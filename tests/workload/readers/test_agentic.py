from __future__ import annotations

import json

import pytest

from evenstep.errors import InputError
from evenstep.workload.readers import agentic


def test_sessions_are_linked_with_their_sub_agents(samples):
    trace = agentic.read(samples / "agentic.jsonl")
    assert trace.arrival_s is None
    assert trace.prompt_tokens.tolist() == [100, 150, 64, 120, 200, 260, 70, 130, 140]
    assert trace.after.tolist() == [-1, 0, 1, 2, 3, 4, -1, 6, 7]
    assert trace.think_s.tolist() == pytest.approx([0.0, 3.0, 0.2, 2.0, 3.8, 14.0, 0.0, 12.0, 6.5])
    assert "1 of 10 requests has an empty output and was dropped." in trace.notes


def test_blocks_belong_to_their_session(samples):
    blocks = agentic.read(samples / "agentic.jsonl").prefix_blocks
    assert (blocks.scope, blocks.block_tokens) == ("session", 64)
    assert [blocks.row(i).tolist() for i in (0, 3, 5, 6)] == [[1, 2], [10, 11], [1, 2, 3, 4, 5], [1, 2]]
    assert agentic.read(samples / "agentic.jsonl", prefix_blocks=False).prefix_blocks is None


def test_reading_stops_after_the_session_that_reaches_the_limit(samples):
    assert set(agentic.read(samples / "agentic.jsonl", limit=2).session.tolist()) == {0}


def session(**change: object) -> str:
    request = {
        "t": 0.0,
        "type": "n",
        "in": 10,
        "out": 5,
        "hash_ids": [1],
        "api_time": 1.0,
        "think_time": 0.0,
        **change,
    }
    return json.dumps({"id": "a", "models": [], "block_size": 64, "requests": [request]}) + "\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"in": 0}, r"x\.jsonl:2: in is 0"),
        ({"out": -1}, r"x\.jsonl:2: out is -1"),
        ({"out": 1.5}, r"x\.jsonl:2: out is 1\.5"),
        ({"t": None}, r"x\.jsonl:2: t is None"),
        ({"api_time": "long"}, r"x\.jsonl:2: api_time is 'long'"),
        ({"think_time": -2}, r"x\.jsonl:2: think_time is -2"),
        ({"hash_ids": ["x"]}, r"x\.jsonl:2: hash_ids"),
    ],
)
def test_a_bad_request_is_named_or_skipped(write, change, message):
    path = write("x.jsonl", session() + session(**change))
    with pytest.raises(InputError, match=message):
        agentic.read(path)
    assert len(agentic.read(path, skip_bad_rows=True)) == 1


@pytest.mark.parametrize("number", [str, float], ids=["text", "number"])
def test_times_written_as_text_link_like_numbers(write, number):
    changes = ({"t": 0.0}, {"t": number(30), "api_time": number(2), "think_time": number(7)}, {"t": 50, "think_time": None})
    requests = [json.loads(session(**change))["requests"][0] for change in changes]
    found = agentic.read(write("x.jsonl", json.dumps({"models": [], "requests": requests}) + "\n"))
    assert found.think_s.tolist() == [0.0, 7.0, 18.0]


def test_a_time_of_400_digits_is_one_clear_error(write):
    path = write("x.jsonl", session() + session().replace('"t": 0.0', '"t": 1' + "0" * 400))
    with pytest.raises(InputError, match=r"x\.jsonl:2: t is 10+\.\.\.; expected a finite number"):
        agentic.read(path)


def test_a_bad_session_is_named_or_skipped(write):
    for bad in ('{"id": "b", "requests": 5}\n', '{"id": "b", "requests": [""]}\n', "{\n", "[]\n"):
        path = write("x.jsonl", session() + bad)
        with pytest.raises(InputError, match=r"x\.jsonl:2: session"):
            agentic.read(path)
        assert len(agentic.read(path, skip_bad_rows=True)) == 1


def test_a_file_whose_outputs_are_all_empty_is_an_error(write):
    with pytest.raises(InputError, match="at least one good row"):
        agentic.read(write("x.jsonl", session(out=0)))
