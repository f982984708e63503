from __future__ import annotations

import pytest

from evenstep.errors import InputError
from evenstep.workload.readers import agentic, agentic_flat


def test_the_flat_form_gives_the_requests_and_links_of_the_sessions(samples):
    flat, nested = agentic_flat.read(samples / "agentic_flat.csv"), agentic.read(samples / "agentic.jsonl")
    for column in ("prompt_tokens", "output_tokens", "session", "after"):
        assert getattr(flat, column).tolist() == getattr(nested, column).tolist(), column
    assert "1 of 10 requests has an empty output and was dropped." in flat.notes


def test_a_bad_row_is_named_or_skipped(samples, write):
    path = write("x.csv", (samples / "agentic_flat.csv").read_text() + "u2,main,30.0,n,m,5,5,fast,1.0,,1,end_turn\n")
    with pytest.raises(InputError, match=r"x\.csv:12: api_time is 'fast'"):
        agentic_flat.read(path)
    assert len(agentic_flat.read(path, skip_bad_rows=True)) == 9


def test_a_skipped_row_is_no_marker_of_its_sub_agent(samples, write):
    header = (samples / "agentic_flat.csv").read_text().splitlines()[0] + "\n"
    main, first, last = "u,main,100,n,m,8,5,1,,,1,end\n", "u,h1,110,n,m,5,5,1,,,1,end\n", "u,main,130,n,m,6,5,1,,,1,end\n"
    bad = first.replace("110", "x")
    clean = agentic_flat.read(write("clean.csv", header + main + first + last))
    found = agentic_flat.read(write("bad.csv", header + main + bad + first + last), skip_bad_rows=True)
    assert found.prompt_tokens.tolist() == clean.prompt_tokens.tolist() == [8, 5, 6]
    assert found.think_s.tolist() == clean.think_s.tolist()
