"""What the host makes of policies that break their contract."""

import numpy as np
import pytest

from evenstep.cost.unit import Unit
from evenstep.errors import InputError, PolicyError
from evenstep.request import Trace
from evenstep.scheduling.view import BatchDecision
from evenstep.sim.engine.simulation import Engine, simulate_engine

PAIR = Trace(prompt_tokens=np.array([4, 4]), output_tokens=np.array([3, 3]))


class Answers:
    """A policy that gives tokens and evicts as it is told."""

    def __init__(self, tokens=None, evict=None, error=None):
        self.tokens, self.evict, self.error = tokens, evict, error

    def form_batch(self, view):
        if self.error:
            raise self.error
        n = view.left.size
        tokens = np.minimum(view.left, 1) if self.tokens is None else np.array(self.tokens[:n] + [0] * n)[:n]
        evict = np.zeros(n, bool)
        if self.evict is not None and view.iteration:
            evict[self.evict] = True
        return BatchDecision(np.where(evict, 0, tokens), evict, view.memory)


@pytest.mark.parametrize(
    ("policy", "engine", "said"),
    [
        (Answers(tokens=[0, 0]), {}, "holds for ever: 0 requests hold memory, 2 wait.*max_hold_s"),
        (Answers(tokens=[9, 1]), {}, "request 0 was given more tokens than it has left"),
        (Answers(tokens=[4, 4]), {"token_budget": 7}, "gave out 8 tokens of a budget of 7"),
        (Answers(tokens=[4, 4]), {"batch_limit": 1}, "batched 2 requests; the limit is 1"),
        (Answers(tokens=[4, 4]), {"kv_tokens": 7}, "would hold 8 KV tokens; the memory holds 7"),
        (Answers(evict=0), {"overflow": "never"}, "overflow=never allows no eviction"),
        (Answers(error=ZeroDivisionError("oops")), {}, "raised ZeroDivisionError: oops"),
        (
            Answers(error=InputError("here", "field", 1, "another")),
            {},
            "^mine raised InputError: here: field is 1; expected",
        ),
    ],
)
def test_a_broken_contract_is_one_error(policy, engine, said):
    with pytest.raises(PolicyError, match=said):
        simulate_engine(PAIR, policy, engine=Engine(**engine), batch_time=Unit(), name="mine")


class AnswersAList:
    """A policy that answers with tokens alone."""

    def form_batch(self, view):
        return [1] * view.left.size


def test_an_answer_of_another_class_is_one_error():
    """It was an AttributeError: 'list' object has no attribute 'tokens'."""
    with pytest.raises(PolicyError, match="^mine: form_batch answers list; expected a BatchDecision$"):
        simulate_engine(PAIR, AnswersAList(), batch_time=Unit(), name="mine")


def test_a_policy_without_a_kernel_has_no_compiled_door():
    with pytest.raises(InputError, match="door is 'compiled'"):
        simulate_engine(PAIR, Answers(), door="compiled")


@pytest.mark.parametrize(
    "given",
    [
        {"trace": "azure.csv"},
        {"engine": "token-budget=512"},
        {"until_s": "soon"},
        {"door": "back"},
        {"trace": Trace(np.array([1 << 62]), np.array([1 << 62]))},
    ],
)
def test_an_argument_that_does_not_fit_is_named(given):
    with pytest.raises(InputError, match=f"{next(iter(given))}"):
        simulate_engine(**{"trace": PAIR, "policy": Answers(), "engine": Engine(kv_tokens=64)} | given)
