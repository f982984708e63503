from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evenstep.errors import InputError
from evenstep.workload.checks import check_trace
from evenstep.workload.readers import servegen
from evenstep.workload.readers.servegen_clients import Client


def test_the_busiest_window_is_drawn_with_its_rates(samples):
    trace = check_trace(servegen.read(samples / "servegen.tar.gz"), "x")
    counts = np.bincount(trace.request_class)
    assert counts[0] == pytest.approx(1.5 * 600, rel=0.15)
    assert counts[1] == pytest.approx(0.1 * 600, rel=0.4)
    assert "from second 600 on" in trace.notes[0]
    assert not trace.synthetic


def test_lengths_come_from_each_clients_own_laws(samples):
    trace = servegen.read(samples / "servegen.tar.gz")
    first = trace.request_class == 0
    assert set(trace.prompt_tokens[first].tolist()) == {80}
    assert set(trace.output_tokens[first].tolist()) == {3, 30}
    assert set(trace.prompt_tokens[~first].tolist()) <= {112, 212, 312, 612}  # text, and 1 or 2 images
    assert set(trace.output_tokens[~first].tolist()) == {7}


def test_a_limit_takes_the_front_of_the_same_draw(samples):
    whole, front = (servegen.read(samples / "servegen.tar.gz", limit=n) for n in (None, 40))
    assert front.arrival_s.tolist() == whole.arrival_s[:40].tolist()
    assert front.prompt_tokens.tolist() == whole.prompt_tokens[:40].tolist()


def test_draws_differ_by_seed_and_replicate_alone(samples):
    source = servegen.source(samples / "servegen.tar.gz")
    times = {key: source.draw(*key).arrival_s.tobytes() for key in [(0, 0), (0, 1), (1, 0)]}
    assert len(set(times.values())) == 3
    assert source.draw(0, 1).arrival_s.tobytes() == times[0, 1]
    assert source.draw(0, 0).synthetic


def test_a_window_may_be_chosen_and_may_be_empty(samples):
    trace = servegen.read(samples / "servegen.tar.gz", start_s=100.0, duration_s=50.0)
    assert trace.arrival_s[-1] < 50
    assert set(trace.prompt_tokens[trace.request_class == 0].tolist()) <= {10, 40, 200}
    with pytest.raises(InputError, match="a window with requests"):
        servegen.read(samples / "servegen.tar.gz", start_s=9000.0)
    with pytest.raises(InputError, match="duration > 0"):
        servegen.read(samples / "servegen.tar.gz", duration_s=0.0)


def test_rates_alone_are_no_requests(samples):
    with pytest.raises(InputError, match=r"rates only.*trace inspect"):
        servegen.read(samples / "servegen_rates.tar.gz")


def test_clients_with_lengths_but_without_windows_have_no_requests(samples, monkeypatch):
    silent, sends = servegen.load(samples / "servegen.tar.gz")
    none = np.zeros(0)
    clients = [replace(silent, start_s=none, rate=none, cv=none, kind=(), shape=none), replace(sends, laws={})]
    monkeypatch.setattr(servegen, "load", lambda path: clients)
    with pytest.raises(InputError, match="expected a window with requests"):
        servegen.read(samples / "servegen.tar.gz")


@pytest.mark.parametrize(("kind", "shape", "cv"), [("Gamma", 0.01, 10.0), ("Weibull", 0.2, 15.8)])
def test_a_window_is_drawn_to_its_end_though_its_law_is_burstier_than_the_published_cv(kind, shape, cv):
    """The last part of a window with many requests had none."""

    def times(published: float, replicate: int) -> list[float]:
        client = Client(0, np.zeros(1), np.ones(1), np.array([published]), (kind,), np.array([shape]))
        return servegen._arrivals(client, 0, 0, replicate)[0].tolist()

    assert all(times(1.0, replicate) == times(cv, replicate) for replicate in range(60))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "shape", "cv"), [("Gamma", 1 / 25, 5.0), ("Gamma", 4.0, 0.5), ("Weibull", 0.5, 2.24), ("Exponential", 1.0, 1.0)]
)
def test_a_rare_client_is_drawn_at_its_published_rate(kind, shape, cv):
    client = Client(0, np.zeros(1), np.array([0.01]), np.array([cv]), (kind,), np.array([shape]))
    counts = [servegen._arrivals(client, 0, 0, replicate)[0].size for replicate in range(3000)]
    assert np.mean(counts) == pytest.approx(6.0, abs=4 * np.std(counts) / np.sqrt(len(counts)))
