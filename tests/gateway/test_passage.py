"""A request in the lane as its model sees it."""

from __future__ import annotations

import inspect

from evenstep.gateway.exchange import Exchange
from evenstep.gateway.passage import Passage
from evenstep.gateway.served import ServedModel

#: What a model calls of what it has for a number.
CALLS = "prefill", "decode", "resume", "abort", "release", "reject", "fail"


class Turns:
    """Turns a passage into what notes which calls it gets."""

    def __init__(self):
        self.calls = []

    def hand_over(self, place):
        self.calls.append(place)
        return self

    def __getattr__(self, name):
        return lambda *args: self.calls.append((name, *args))


def test_whatever_a_model_calls_of_it_is_called_of_the_exchange_it_becomes():
    for name in CALLS:
        count = len(inspect.signature(getattr(Exchange, name)).parameters) - 1
        assert len(inspect.signature(getattr(Passage, name)).parameters) - 1 == count
        if name == "decode":
            continue
        lane = Turns()
        getattr(Passage(lane, 7), name)(*range(count))
        assert lane.calls == [7, (name, *range(count))]


def test_a_model_calls_nothing_else():
    source = inspect.getsource(ServedModel)
    for part in source.split("self._exchanges[command.request].")[1:] + source.split("exchange.abort(")[1:]:
        assert part.partition("(")[0] in CALLS or part.startswith("command.leg")
