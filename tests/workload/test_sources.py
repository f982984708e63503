from __future__ import annotations

import pytest

from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.workload.readers.servegen import ServeGen
from evenstep.workload.replicate import rate
from evenstep.workload.sources import first_trace, open_source
from evenstep.workload.synthetic.synthetic import Synthetic

YAML = """version: 1
synthetic:
  requests: 50
  prompt: {law: uniform, low: 1, high: 9}
  output: {law: constant, tokens: 4}
"""


def test_a_recorded_trace_a_generator_and_a_yaml_are_told_apart(samples, write):
    assert isinstance(open_source(samples / "azure.csv").source, Trace)
    assert isinstance(open_source(samples / "servegen.tar.gz").source, ServeGen)
    assert isinstance(open_source(write("w.yaml", YAML)).source, Synthetic)
    assert isinstance(open_source("sample:azure-conv", limit=5).source, Trace)


def test_a_limit_cuts_whatever_it_is(samples, write):
    assert len(open_source(samples / "azure.csv", limit=3).source) == 3
    assert open_source(write("w.yaml", YAML), limit=3).source.requests == 3
    assert len(open_source(samples / "servegen.tar.gz", limit=3).source.draw(0)) == 3
    recorded = write("r.yaml", f"version: 1\ntrace: {{file: '{samples / 'azure.csv'}'}}\n")
    assert len(open_source(recorded, limit=3).source) == 3
    drawn = write("s.yaml", f"version: 1\ntrace: {{file: '{samples / 'servegen.tar.gz'}'}}\n")
    assert len(open_source(drawn, limit=3).source.draw(0)) == 3
    short = write("t.yaml", f"version: 1\ntrace: {{file: '{samples / 'servegen.tar.gz'}', limit: 2}}\n")
    assert len(open_source(short, limit=3).source.draw(0)) == 2
    with pytest.raises(InputError, match="limit is 0"):
        open_source(samples / "azure.csv", limit=0)


def test_options_go_to_the_format(samples):
    kept = open_source(samples / "mooncake.jsonl", "mooncake:ticks=keep").source
    assert kept.arrival_s[:4].tolist() == [0, 0, 0, 3]
    window = open_source(samples / "servegen.tar.gz", "servegen", start_s="0", duration_s="30").source
    assert (window.start_s, window.duration_s) == (0.0, 30.0)
    with pytest.raises(InputError, match="Did you mean start_s"):
        open_source(samples / "servegen.tar.gz", "servegen:starts=0")


def test_the_first_trace_has_the_rate_of_its_file_and_says_that_a_load_needs_a_fleet(write):
    timed = YAML + "  arrivals: {process: poisson, requests_per_s: 5}\n"
    assert rate(first_trace(open_source(write("w.yaml", timed + "requests_per_s: 2\n")), 0)) == pytest.approx(2)
    trace = first_trace(open_source(write("v.yaml", timed + "load: 0.9\n")), 0)
    assert rate(trace) != pytest.approx(2)
    assert trace.notes[-1] == "The file asks for a load of 0.9: that needs a fleet, so times were not scaled."
