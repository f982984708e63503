"""The report of scheduling policies: whole, self-contained, and safe to open."""

import numpy as np

from evenstep.cost.unit import Unit
from evenstep.measure.engine_comparison import compare_engine_runs
from evenstep.report.engine_page import page
from evenstep.request import Trace
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.sim.engine.simulation import Engine, simulate_engine


def test_a_change_from_zero_is_not_shown_in_per_cent():
    trace = Trace(prompt_tokens=np.arange(1, 9), output_tokens=np.arange(1, 9))
    runs = {name: simulate_engine(trace, Sarathi(), batch_time=Unit(), name=name) for name in ("one", "other")}
    text = page(compare_engine_runs([[run] for run in runs.values()]), runs)
    assert "<small>+0.0 %</small>" in text, "the latencies are equal"
    assert "<small>- %</small>" not in text, "neither evicts a request"


def test_the_page_shows_every_chart_and_fetches_nothing():
    trace = Trace(prompt_tokens=np.arange(1, 40), output_tokens=np.arange(1, 40), name="<b>mine</b>")
    run = simulate_engine(trace, Sarathi(), engine=Engine(kv_tokens=90), batch_time=Unit(), name="sarathi")
    text = page(compare_engine_runs([[run]]), {"sarathi": run})
    assert text.count("<svg") == 8 and "Not recorded" not in text
    assert "&lt;b&gt;mine" in text and "<b>mine" not in text
    assert "src=" not in text and run.digest in text
    assert 'text-anchor="start">sarathi</text>' in text, "the dot of mean and tail has its name"
