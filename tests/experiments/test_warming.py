"""Compiling kernels side by side."""

from __future__ import annotations

import pytest

from evenstep import compiled
from evenstep.experiments import warming
from evenstep.experiments.warming import Warming
from evenstep.routing.policies.jsq import JSQ

LOOP, JSQS = "evenstep.sim.cluster.short_loop", "evenstep.routing.policies.jsq"


def test_without_other_processes_a_kernel_is_compiled_here(monkeypatch):
    here = []
    monkeypatch.setattr(warming, "load", here.append)
    found = Warming([[], [LOOP, JSQS]], 0)
    found.ready(0)
    assert here == []
    found.ready(1)
    found.end()
    assert here == [LOOP, JSQS]


def test_a_kernel_that_another_process_could_not_load_is_left_to_us():
    found = Warming([[JSQS], [JSQS, "evenstep.no_such_kernel"]], 1)
    found.ready(0)
    with pytest.raises(ModuleNotFoundError):
        found.ready(1)
    found.end()
    found.end()


def test_only_cold_kernels_of_ours_are_loaded(monkeypatch):
    class Mine:
        """A policy of a user, in a file of its own."""

    monkeypatch.setattr(warming, "_in_cache", lambda file: False)
    assert warming.cold_kernels([JSQ(), Mine()], [LOOP, LOOP]) == [[LOOP, JSQS], [LOOP]]
    monkeypatch.setattr(warming, "_in_cache", lambda file: file.stem == "short_loop")
    assert warming.cold_kernels([JSQ()], [LOOP]) == [[JSQS]]
    monkeypatch.setattr(warming, "_in_cache", lambda file: True)
    assert warming.cold_kernels([JSQ()], [LOOP]) == [[]]


def test_without_numba_it_says_so(monkeypatch):
    monkeypatch.setattr(compiled, "numba", None)
    assert (
        warming.compile_notice()
        == "kernels run as plain Python (slow): numba compiles them if installed, and if EVENSTEP_PLAIN is not 1"
    )
