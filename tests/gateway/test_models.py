"""Pages of models, read and joined."""

from __future__ import annotations

import json

import pytest

from evenstep.errors import EngineError
from evenstep.gateway.serve.models import card_of, joined, page, read_models


def test_models_come_before_their_adapters_and_entries_stay_as_they_were():
    adapter, base = b'{"id":"lora", "parent":"m"}', b'{"id":"m","parent":null,"extra":[1]}'
    cards = read_models(b'{"object":"list","data":[%b,%b]}' % (adapter, base))
    assert [(c.name, c.parent, c.text) for c in cards] == [("m", "", base), ("lora", "m", adapter)]
    assert json.loads(page(cards))["data"][0]["extra"] == [1]


def test_who_said_a_name_first_stays():
    first, second = card_of("m"), card_of("m", "other")
    assert joined({"m": first}, [second, card_of("n")])["m"] is first
    assert json.loads(second.text)["parent"] == "other"


@pytest.mark.parametrize("body", [b"", b"[]", b'{"data":[]}', b'{"data":[{}]}', b"\xff", b"<html>", b"[" * 100_000])
def test_what_is_no_page_is_an_error(body):
    with pytest.raises(EngineError):
        read_models(body)
