"""A dispatcher's state as bytes: whole, and nothing but a state."""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dispatch.storm import POLICIES, Storm

from evenstep.dispatch.checkpoint import _LAYOUT, dump
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.log.file import LogFile
from evenstep.errors import InputError


@pytest.mark.slow
@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=15)
def test_a_restored_dispatcher_is_the_same_one(seed, split):
    storm = Storm(seed, split)
    for _ in range(40):
        storm.step()
    again = Dispatcher("jsq")
    again.resume(dump(storm.dispatcher.parts))
    again.check()
    before, after = storm.dispatcher.snapshot(), again.snapshot()
    assert before == after
    storm.dispatcher = again
    for _ in range(20):
        storm.step()
    storm.calm()


class Names(pickle.Pickler):
    """Notes the fields of every object of ours that it writes."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.found: set[str] = set()

    def persistent_id(self, obj):
        kind = type(obj)
        if kind.__module__.startswith("evenstep.") and not isinstance(obj, type):
            state = getattr(obj, "__struct_fields__", None) or getattr(obj, "_fields", None) or obj.__getstate__()
            parts = state if isinstance(state, tuple) and not isinstance(state[0], str) else (state,)
            self.found |= {f"{kind.__module__}.{kind.__qualname__}.{name}" for part in parts for name in part or ()}


def test_a_state_of_other_fields_has_another_layout():
    names = Names()
    for seed, policy in enumerate(POLICIES):
        storm = Storm(seed, split=seed % 2 == 0, policy=policy)
        for _ in range(40):
            storm.step()
        names.dump(storm.dispatcher.parts)
    digest = hashlib.sha256("\n".join(sorted(names.found)).encode()).hexdigest()[:12]
    assert (_LAYOUT, digest) == (13, "330613160516"), (
        "raise `_LAYOUT` in dispatch/checkpoint.py, and write it here with the digest"
    )


class Evil:
    def __reduce__(self):
        return Path, ("/nowhere",)


class Writes:
    def __reduce__(self):
        return LogFile, (Path("/nowhere"),)


@pytest.mark.parametrize(
    "state",
    [pickle.dumps(Evil()), pickle.dumps(Writes()), pickle.dumps({"settings": print}), b"", b"no pickle"],
)
def test_bytes_that_are_something_else_are_refused(state):
    with pytest.raises(InputError, match="checkpoint"):
        Dispatcher("jsq").resume(state)


def test_a_state_of_another_version_says_where_to_begin():
    with pytest.raises(InputError, match="Another version of evenstep wrote it; begin with part 0"):
        Dispatcher("jsq").resume(pickle.dumps({"now_s": 0.0}))
