from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from evenstep.errors import InputError
from evenstep.report import trace_plots
from evenstep.request import Trace
from evenstep.workload.reading import read_trace
from evenstep.workload.statistics import describe, describe_clients

SAMPLES = Path(__file__).parents[1] / "workload" / "samples"
MAGIC = {"png": b"\x89PNG", "html": b"<!doctype html>"}


@pytest.mark.parametrize("kind", ["html", pytest.param("png", marks=pytest.mark.slow)])
def test_a_trace_is_drawn_to_each_other_kind_of_file_than_svg(kind, tmp_path):
    trace = read_trace("sample:azure-conv", limit=500)
    trace_plots.save_trace(trace, describe(trace), tmp_path / f"t.{kind}")
    assert (tmp_path / f"t.{kind}").read_bytes().startswith(MAGIC[kind])


@pytest.mark.slow
def test_the_page_stands_alone_and_shows_figures_and_notes(tmp_path):
    trace = read_trace(SAMPLES / "agentic.jsonl")
    trace_plots.save_trace(trace, describe(trace), tmp_path / "t.html")
    page = (tmp_path / "t.html").read_text()
    assert not re.search(r'(src|href)="(https?:)?//', page)
    assert ("<svg" in page and "Think times" in page) or "sessions" in page
    assert "1 of 10 requests has an empty output" in page


def test_what_a_file_says_of_itself_is_escaped(tmp_path):
    trace = Trace(np.array([5]), np.array([2]), name="<script>", notes=("a < b",))
    trace_plots.save_trace(trace, describe(trace), tmp_path / "t.html")
    page = (tmp_path / "t.html").read_text()
    assert "<script>" not in page and "a &lt; b" in page


@pytest.mark.parametrize("name", ["a$x_$b.csv", "bad\udcff.csv"])
def test_any_name_of_a_file_can_stand_above_the_picture(name, tmp_path):
    trace = Trace(np.array([5]), np.array([2]), name=name)
    trace_plots.save_trace(trace, describe(trace), tmp_path / "t.html")
    assert "<svg" in (tmp_path / "t.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "trace",
    [
        Trace(np.array([1]), np.array([1]), arrival_s=np.array([0.0])),
        Trace(np.array([1, 1]), np.array([1, 1]), arrival_s=np.array([0.0, 0.0])),
        Trace(np.array([1, 1, 1]), np.array([1, 1, 1]), arrival_s=np.array([0.0, 1.0, 1.0])),
    ],
)
def test_the_smallest_traces_can_be_drawn(trace, tmp_path):
    trace_plots.save_trace(trace, describe(trace), tmp_path / "t.svg")
    assert (tmp_path / "t.svg").read_bytes().startswith(b"<?xml")


@pytest.mark.slow
def test_clients_are_drawn_even_when_they_have_rates_only(tmp_path):
    for name in ("servegen.tar.gz", "servegen_rates.tar.gz"):
        trace_plots.save_clients(SAMPLES / name, describe_clients(SAMPLES / name), tmp_path / "c.svg")
        assert (tmp_path / "c.svg").stat().st_size > 0


@pytest.mark.slow
def test_another_ending_or_a_missing_folder_is_an_error(tmp_path):
    trace = read_trace(SAMPLES / "azure.csv")
    with pytest.raises(InputError, match=r"\.html, \.png or \.svg"):
        trace_plots.save_trace(trace, describe(trace), tmp_path / "t.gif")
    with pytest.raises(InputError):
        trace_plots.save_trace(trace, describe(trace), tmp_path / "missing" / "t.svg")
