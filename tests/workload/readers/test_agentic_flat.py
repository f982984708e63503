from __future__ import annotations

import pytest

from evenstep.errors import InputError
from evenstep.workload.readers import agentic, agentic_flat


def test_the_flat_form_gives_the_requests_and_links_of_the_sessions(samples):
    flat, nested = agentic_flat.read(samples / "agentic_flat.csv"), agentic.read(samples / "agentic.jsonl")
    for column in ("prompt_tokens", "output_tokens", "session", "after"):
        assert getattr(flat, column).tolist() == getattr(nested, column).tolist(), column
    assert "1 of 10 requests have an empty output and were dropped." in flat.notes


def test_a_bad_row_is_named_or_skipped(samples, write):
    path = write("x.csv", (samples / "agentic_flat.csv").read_text() + "u2,main,30.0,n,m,5,5,fast,1.0,,1,end_turn\n")
    with pytest.raises(InputError, match=r"x\.csv:12: api_time is 'fast'"):
        agentic_flat.read(path)
    assert len(agentic_flat.read(path, skip_bad_rows=True)) == 9
