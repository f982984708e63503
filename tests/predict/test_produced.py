"""Requests that end with less than they had produced are bad input."""

from __future__ import annotations

import pytest
from tests.predict.asked import active, finished

from evenstep.errors import InputError
from evenstep.predict import produced
from evenstep.predict.produced import Produced


def test_the_last_age_counts_until_the_request_ends():
    kept = Produced()
    kept.asked(active(3, 9))
    kept.asked(active(12))
    kept.ended(finished(9, first=1))
    assert len(kept) == 1
    with pytest.raises(InputError, match="request 0: output_tokens is 11; expected at least 12"):
        kept.ended(finished(11, first=0))
    kept.ended(finished(1, first=0))  # forgotten with the error


def test_of_too_many_those_asked_about_longest_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr(produced, "MOST", 10)
    kept = Produced()
    kept.asked(active(*[5] * 8))
    kept.asked(active(*[5] * 8, first=100))
    assert len(kept) == 11
    kept.ended(finished(1, first=0))
    with pytest.raises(InputError):
        kept.ended(finished(1, first=107))
