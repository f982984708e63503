"""Models of a predictor are fitted beside the decisions, and put in by an event."""

from __future__ import annotations

import pytest
from tests.dispatch.engines import Barrier, saturated
from tests.dispatch.test_core import small_trace

from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.log.file import LogFile, part_of
from evenstep.dispatch.replay import replay
from evenstep.dispatch.settings import Settings
from evenstep.predict.trees import TreesFit

pytest.importorskip("lightgbm")

LEARNED = "learned:first=40,refit=60,trees=5"


class FitsLater(Barrier):
    """Engines whose host makes a fit some steps after it fell due, as a thread would.

    Args:
        later: steps a fit takes; None = nobody makes one.
    """

    later: int | None = 7

    def advance(self) -> None:
        super().advance()
        fit = self.dispatcher.fit
        if self.later is None or fit is None:
            return
        asked = self.__dict__.setdefault("asked", {})
        if asked.setdefault(id(fit), self.step) + self.later <= self.step:
            fit.make()
            self.tell(ev.Fitted(now_s=self.now_s))


def run(predictor, later, log=None, policy="br-h:horizon=6", requests=300):
    trace = small_trace(requests)
    dispatcher = Dispatcher(policy, predictor=predictor, settings=Settings(ttl_s=1e9), log=log)
    barrier = FitsLater(dispatcher, 4, 6, trace.prompt_tokens, trace.output_tokens)
    barrier.later = later
    saturated(barrier, requests, 16)
    return dispatcher


def fits(dispatcher):
    return dispatcher.parts.deciding.ahead.gate.counted()["predictor_fits"]


@pytest.mark.parametrize("predictor", [LEARNED, "bounded:of=" + LEARNED.replace(",", "/")])
def test_no_event_but_fitted_makes_a_fit_nor_puts_one_in(predictor, monkeypatch):
    made = []

    def make(fit):
        made.append(fit)

    monkeypatch.setattr(TreesFit, "make", make)
    dispatcher = run(predictor, None)
    assert isinstance(dispatcher.fit, TreesFit)
    assert made == [] and fits(dispatcher) == 0
    fit = dispatcher.fit
    dispatcher.handle(ev.Fitted(now_s=dispatcher.now_s))
    assert made == [fit] and fits(dispatcher) == 1 and dispatcher.fit is None


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["br-h:horizon=6", "best"])
def test_a_log_replays_to_the_bit_with_the_models_put_in_where_they_were(tmp_path, monkeypatch, policy):
    file = LogFile(tmp_path / "log.evlog")
    dispatcher = run(LEARNED, 7, file, policy)
    file.close()
    assert fits(dispatcher) >= 4
    found = replay(tmp_path / "log.evlog")
    assert found.difference is None and found.decisions > 100
    monkeypatch.setattr("evenstep.dispatch.core.Dispatcher._fitted", lambda *_: None)
    assert replay(tmp_path / "log.evlog").difference is not None


def test_every_part_of_a_log_replays_by_itself_fitted_trees_included(tmp_path):
    file = LogFile(tmp_path / "log.evlog", part_bytes=40_000)
    run(LEARNED, 7, file)
    file.close()
    assert file.part >= 2
    for part in range(1, file.part + 1):
        assert replay(part_of(tmp_path / "log.evlog", part)).difference is None


def test_a_fit_that_failed_leaves_what_there_is():
    dispatcher = run(LEARNED, None)
    dispatcher.handle(ev.Fitted(now_s=dispatcher.now_s, ok=False))
    assert dispatcher.fit is None and fits(dispatcher) == 0


def test_models_that_cannot_be_put_in_are_a_fallback_of_the_next_round(monkeypatch):
    dispatcher = run(LEARNED, None)
    monkeypatch.setattr(TreesFit, "make", lambda fit: 1 / 0)
    dispatcher.handle(ev.Fitted(now_s=dispatcher.now_s))
    dispatcher.handle(ev.Arrived(now_s=dispatcher.now_s, request=10**6, prompt_tokens=5))
    dispatcher.handle(ev.Tick(now_s=dispatcher.now_s))
    assert dispatcher.parts.meters.decisions["br-h:horizon=6", "fallback"] == 1


@pytest.mark.parametrize("predictor", ["survival", "bounded:of=survival", ""])
def test_without_a_predictor_that_fits_nothing_is_due_and_the_event_changes_nothing(predictor):
    dispatcher = run(predictor, None, requests=60, policy="br-h:horizon=6" if predictor else "jsq")
    assert dispatcher.fit is None
    assert dispatcher.handle(ev.Fitted(now_s=dispatcher.now_s)) == []
