"""Kernels that begin as plain Python and change over to compiled code."""

from __future__ import annotations

import threading
import types

import pytest

from evenstep import late
from evenstep.late import Change, Late, change_over, in_compiled_code


@pytest.fixture
def change(monkeypatch):
    """A process that has not changed over."""
    monkeypatch.setattr(late, "_all", [])
    monkeypatch.setattr(late, "change", Change())
    return late.change


def plain(x):
    """The text."""
    return "plain", x


def kernel(made, **what):
    """A kernel whose compiled form says so."""

    def make():
        made.append(what)
        return lambda x: ("compiled", x)

    return Late(plain, make, **what)


def test_a_kernel_runs_its_text_until_the_process_changes_over(change):
    made = []
    found = kernel(made)
    assert found(1) == ("plain", 1) and found.__doc__ == "The text." and not made
    change_over()
    assert found(2) == ("compiled", 2) and len(made) == 1
    assert found(3) == ("compiled", 3) and len(made) == 1


def test_an_argument_may_be_named_before_and_after_the_change(change):
    found = kernel([])
    assert found(x=1) == ("plain", 1)
    change_over()
    assert found(x=2) == ("compiled", 2)


def test_what_only_compiled_code_may_call_stays_plain_for_python(change):
    found = kernel([], is_door=False)
    change_over()
    assert found(1) == ("plain", 1)


def test_one_thread_runs_compiled_code_while_the_others_do_not_and_loads_what_is_declared(change):
    made = []
    declared, usual = kernel(made, is_declared=True), kernel(made)
    seen = []
    with in_compiled_code():
        assert made == [{"is_declared": True}]
        assert usual(1) == ("compiled", 1)
        other = threading.Thread(target=lambda: seen.append(usual(2)))
        other.start()
        other.join()
    assert seen == [("plain", 2)]
    assert usual(3) == declared(3) == ("plain", 3)


def test_names_of_modules_lead_straight_to_what_is_loaded(change, monkeypatch):
    loaded, unloaded, part = kernel([], is_declared=True), kernel([]), kernel([], is_door=False)
    module = types.ModuleType("evenstep.toy")
    module.loaded, module.unloaded, module.part = loaded, unloaded, part
    monkeypatch.setitem(late.sys.modules, "evenstep.toy", module)
    with in_compiled_code():
        pass
    assert part.made is not None
    change_over()
    assert module.loaded is loaded.made
    assert module.unloaded is unloaded and module.part is part


def test_a_process_that_began_compiled_has_nothing_to_change(change):
    change_over()
    assert not change.is_compiled


def test_the_compiler_sees_what_was_compiled(change):
    found = Late(plain, lambda: types.SimpleNamespace(_numba_type_="a type", other=3))
    assert found._numba_type_ == "a type" and found.other == 3
    with pytest.raises(AttributeError):
        getattr(found, "__array__")  # noqa: B009
