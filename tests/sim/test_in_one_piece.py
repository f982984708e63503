"""Calls of compiled loops that Ctrl-C does not break."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.sim.network.networks import UNIT, call, one_engine

from evenstep import compiled
from evenstep.experiments.contenders import contender
from evenstep.request import Trace
from evenstep.routing.policies.jsq import JSQ
from evenstep.scheduling.policies.vllm import Vllm
from evenstep.sim import asking
from evenstep.sim.cluster.simulation import Cluster, simulate
from evenstep.sim.engine.simulation import Engine, simulate_engine
from evenstep.sim.in_one_piece import in_one_piece
from evenstep.sim.network.description import EngineSection
from evenstep.sim.network.simulation import simulate_network


@pytest.mark.skipif(compiled.numba is None, reason="needs numba")
@pytest.mark.parametrize(("spec", "ranks"), [("fcfs", 0), ("bf-io:horizon=2,predictor=survival", 0), ("", 1), ("", 2)])
def test_ctrl_c_while_numba_reads_the_arguments_of_a_loop_ends_the_run(monkeypatch, spec, ranks):
    """It became a TypeError of numba, "This is a bug of evenstep", and exit code 70."""
    from numba.core import serialize

    class Interrupted(dict):  # where numba's code in Python looks up what it reads arguments with
        def __getitem__(self, key):
            signal.raise_signal(signal.SIGINT)
            return super().__getitem__(key)

    def run():
        trace = Trace(np.array([3, 4, 5]), np.array([2, 2, 2]), arrival_s=np.zeros(3))
        if ranks:
            return simulate_engine(trace, Vllm(), engine=Engine(data_parallel=ranks))
        policy, predictor = contender(spec).build()
        return simulate(trace, policy, cluster=Cluster(workers=2, slots=1), predictor=predictor, records=False)

    run()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(serialize, "_unpickled_memo", Interrupted(serialize._unpickled_memo))
    try:
        with pytest.raises(KeyboardInterrupt):
            run()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_during_a_call_in_one_piece_is_handled_after_it_even_if_it_raises():
    done = []

    def kernel(fails):
        signal.raise_signal(signal.SIGINT)
        done.append(fails)
        if fails:
            raise ValueError

    for fails in (False, True):
        with pytest.raises(KeyboardInterrupt), in_one_piece() as call:
            call(kernel, fails)
    assert done == ([False, True] if compiled.numba is not None else [])


def test_a_signal_between_two_calls_is_handled_at_once():
    with pytest.raises(KeyboardInterrupt), in_one_piece():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_that_comes_with_ctrl_c_in_one_call_is_handled_too():
    came = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))

    def kernel():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

    try:
        with pytest.raises(KeyboardInterrupt), in_one_piece() as call:
            call(kernel)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came == ([signal.SIGTERM] if compiled.numba is not None else [])


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_policy_in_python_finds_the_handlers_as_they_are(ranks):
    """A policy that sets one kept it only for the run, and asyncio lost its own."""

    class Looks(Vllm):
        plain_only = True

        def form_batch(self, view):
            seen.append(signal.getsignal(signal.SIGINT))
            return super().form_batch(view)

    seen = []
    trace = Trace(np.array([3]), np.array([2]), arrival_s=np.zeros(1))
    simulate_engine(trace, Looks(), engine=Engine(data_parallel=ranks))
    assert set(seen) == {signal.getsignal(signal.SIGINT)}


#: What Python tells its hook of an ignored error, without the object that it came from.
PARTS = "exc_type", "exc_value", "exc_traceback", "err_msg"


class PlainVllm(Vllm):
    plain_only = True


class PlainJSQ(JSQ):
    plain_only = True


def plain_run(host):
    trace = Trace(np.array([3, 4, 5]), np.array([2, 2, 2]), arrival_s=np.zeros(3))
    if host == "cluster":
        return simulate(trace, PlainJSQ(), cluster=Cluster(workers=2, slots=1), records=False)
    if host == "network":
        places = {"one": EngineSection(engine=UNIT, batch_time="unit", policy=f"{__name__}:PlainVllm")}
        return simulate_network(replace(one_engine({"a": call("one")}, count=3), engines=places))
    return simulate_engine(trace, PlainVllm(), engine=Engine(data_parallel=2 if host == "ranks" else 1))


@pytest.mark.parametrize("names_function", [True, False], ids=["as Python 3.12", "as Python 3.13"])
@pytest.mark.parametrize("host", ["cluster", "engine", "ranks", "network"])
def test_ctrl_c_on_entry_to_a_question_to_python_ends_the_run(host, names_function, monkeypatch):
    """Python ignored it: the run went on with no answer, or ended as if the policy had broken its contract."""
    kept = asking._kept

    @contextmanager
    def told(function, lost):
        with kept(function, lost):
            hook = sys.unraisablehook
            found = function if names_function else None
            sys.unraisablehook = lambda e: hook(SimpleNamespace(**{n: getattr(e, n) for n in PARTS}, object=found))
            yield

    monkeypatch.setattr(asking, "_kept", told)

    def trace(frame, event, argument):
        if frame.f_code.co_name == "asked":
            raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with pytest.raises(KeyboardInterrupt):
            plain_run(host)
    finally:
        sys.settrace(before)


@pytest.mark.skipif(compiled.numba is None, reason="needs numba")
@pytest.mark.parametrize("host", ["cluster", "engine", "ranks", "network"])
def test_ctrl_c_while_numba_reads_the_arguments_of_a_loop_that_asks_python_ends_the_run(monkeypatch, host):
    from numba.core import serialize

    class Interrupted(dict):
        def __getitem__(self, key):
            signal.raise_signal(signal.SIGINT)
            return super().__getitem__(key)

    plain_run(host)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(serialize, "_unpickled_memo", Interrupted(serialize._unpickled_memo))
    try:
        with pytest.raises(KeyboardInterrupt):
            plain_run(host)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
