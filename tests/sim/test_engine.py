"""The engine simulator by hand: examples worked out on paper, and bad input."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from evenstep.cost.affine_kv import AffineKv
from evenstep.cost.linear import Linear
from evenstep.cost.unit import Unit
from evenstep.errors import InputError, PolicyError
from evenstep.request import Trace
from evenstep.scheduling.policies.a_ell import AEll
from evenstep.scheduling.policies.a_max import AMax
from evenstep.scheduling.policies.a_min import AMin
from evenstep.scheduling.policies.best import Best
from evenstep.scheduling.policies.least_attained import LeastAttained
from evenstep.scheduling.policies.mlfq import Mlfq
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.scheduling.policies.orca import Orca
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.policies.srpt import Srpt
from evenstep.scheduling.policies.vanilla_vllm import VanillaVllm
from evenstep.scheduling.policies.wait import Wait
from evenstep.scheduling.policies.work_conserving import WorkConserving
from evenstep.scheduling.view import BatchDecision
from evenstep.sim.engine.simulation import Engine, simulate_engine


def trace(*requests, times=None):
    prompt, output = np.array(requests, np.int64).T
    return Trace(prompt_tokens=prompt, output_tokens=output, arrival_s=None if times is None else np.array(times))


@pytest.mark.parametrize("door", ["plain", "compiled"])
def test_the_last_prefill_chunk_produces_the_first_token(door):
    run = simulate_engine(trace((10, 3)), Sarathi(), engine=Engine(token_budget=4), batch_time=Unit(), door=door)
    assert run.iterations is not None
    assert run.iterations.tokens.tolist() == [4, 4, 2, 1, 1]
    assert run.iterations.produced.tolist() == [0, 0, 1, 1, 1]
    assert run.requests.first_token_s.tolist() == [3.0] and run.requests.finished_s.tolist() == [5.0]


@pytest.mark.parametrize("door", ["plain", "compiled"])
def test_where_the_first_decode_produces_it_prefill_produces_nothing(door):
    engine = Engine(token_budget=4, first_token="decode")
    run = simulate_engine(trace((10, 3)), Sarathi(), engine=engine, batch_time=Unit(), door=door)
    assert run.iterations is not None
    assert run.iterations.produced.tolist() == [0, 0, 0, 1, 1, 1]


def test_an_idle_engine_sleeps_until_the_next_arrival():
    run = simulate_engine(trace((1, 1), (1, 1), times=[0.5, 9.0]), Sarathi(), batch_time=Unit())
    assert run.requests.finished_s.tolist() == [1.5, 10.0]
    assert run.summary["busy_share"] == pytest.approx(0.2)


def test_time_by_kv_counts_what_the_batch_holds_after_it():
    law = AffineKv(d0_s=1.0, d1_s=0.1)
    run = simulate_engine(trace((5, 2)), Sarathi(), engine=Engine(first_token="decode"), batch_time=law)
    assert run.iterations is not None
    assert run.iterations.seconds.tolist() == pytest.approx([1.5, 1.6, 1.7])


@pytest.mark.parametrize(
    ("overflow", "evictions", "wasted", "moved"),
    [("recompute", 1, 4, 0), ("restart", 2, 7, 0), ("swap", 1, 0, 8)],
)
def test_what_an_evicted_request_keeps(overflow, evictions, wasted, moved):
    """Two of prompt 3 and output 6 in 9 tokens: the second has computed 4 when both cannot grow.

    From zero it is short enough to come back at once, and has to go again with its 3 tokens.
    """
    engine = Engine(kv_tokens=9, overflow=overflow)
    run = simulate_engine(trace((3, 6), (3, 6)), Sarathi(), engine=engine, batch_time=Unit())
    assert run.totals.evictions == evictions
    assert (run.totals.wasted_tokens, run.totals.moved_tokens) == (wasted, moved)
    assert run.totals.requests == 2


def test_a_run_can_stop_before_its_end():
    run = simulate_engine(trace((1, 5), (1, 50)), Sarathi(), batch_time=Unit(), until_s=10.0)
    assert (run.totals.requests, run.totals.unfinished, run.totals.makespan_s) == (1, 1, 10.0)


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_idle_engine_stops_at_the_time_asked_and_not_at_the_next_arrival(ranks):
    late = dataclasses.replace(trace((1, 5), (1, 50)), arrival_s=np.array([0.0, 1000.0]))
    run = simulate_engine(late, Sarathi(), engine=Engine(data_parallel=ranks), batch_time=Unit(), until_s=10.0)
    assert (run.totals.requests, run.totals.makespan_s) == (1, 10.0)


def test_the_same_seed_gives_the_same_digest_with_and_without_records():
    many = trace(*[(3 + k % 7, 1 + k % 11) for k in range(200)])
    runs = [simulate_engine(many, Sarathi(), engine=Engine(kv_tokens=90), records=r) for r in (True, False)]
    assert runs[0].digest == runs[1].digest and runs[1].iterations is None


@pytest.mark.parametrize(
    ("requests", "engine", "said"),
    [
        ([(0, 1)], {}, "prompt_tokens of request 0 is 0"),
        ([(4, -2)], {}, "output_tokens of request 0 is -2"),
        ([(2, 2), (90, 20)], {"kv_tokens": 100}, "request 1"),
    ],
)
def test_lengths_that_cannot_be_served_are_named(requests, engine, said):
    with pytest.raises(InputError, match=said):
        simulate_engine(trace(*requests), Sarathi(), engine=Engine(**engine))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"arrival_s": [0.0, math.nan]}, "arrival_s of request 1 is nan"),
        ({"arrival_s": [-1.0, 0.0]}, r"arrival_s of request 0 is -1\.0"),
        ({"prompt_tokens": [4, 1.5]}, r"prompt_tokens of request 1 is 1\.5"),
        (
            {"request_class": [0, -(10**8)]},
            r"request_class of request 1 is -100000000; expected an integer from 0 to 1000000\.",
        ),
        ({"request_class": [10**12, 0]}, "request_class of request 0 is 1000000000000"),
    ],
)
@pytest.mark.parametrize("ranks", [1, 2])
def test_columns_that_are_no_trace_are_named(columns, said, ranks):
    bad = dataclasses.replace(trace((4, 3), (4, 3)), **{name: np.array(v) for name, v in columns.items()})
    with pytest.raises(InputError, match=said):
        simulate_engine(bad, Sarathi(), engine=Engine(data_parallel=ranks))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("policy", "sarathi"),
        ("policy", Sarathi),
        ("batch_time", "unit"),
        ("batch_time", Unit),
        ("batch_time", Linear()),
        ("door", "back"),
        ("until_s", math.nan),
        ("until_s", -1),
        ("bounds", 5),
        ("bounds", (None, None)),
        ("bounds", (np.array([1.5]), np.array([2.5]))),
    ],
)
def test_an_argument_that_is_none_of_its_kind_is_named(field, value):
    arguments = {"policy": Sarathi(), field: value}
    with pytest.raises(InputError, match="low" if field == "bounds" and value != 5 else field):
        simulate_engine(trace((4, 3)), **arguments)


@pytest.mark.parametrize("high", [(1 << 53) + 1, 1 << 62])
def test_bounds_that_a_policy_could_not_add_are_refused(high):
    """``best`` adds both bounds: twice 2^62 was below 0, so the longest request went first."""
    low, trace = np.ones(2, np.int64), Trace(np.array([4, 4]), np.array([1, 1]))
    said = f"bounds: request 1 is '.1, {high}.'; expected 0 <= low <= high <= {1 << 53} tokens"
    with pytest.raises(InputError, match=said):
        simulate_engine(trace, Best(), bounds=(low, np.array([5, high])))
    with pytest.raises(InputError, match=said):
        simulate_engine(dataclasses.replace(trace, output_low=low, output_high=np.array([5, high])), Best())


def test_bounds_must_be_in_order_and_those_that_miss_the_truth_are_counted():
    one = trace((4, 5), (4, 50))
    with pytest.raises(InputError, match=r"\[9, 3\]"):
        simulate_engine(one, Sarathi(), bounds=(np.array([9, 1]), np.array([3, 2])))
    run = simulate_engine(one, Sarathi(), bounds=(np.array([1, 1]), np.array([9, 9])))
    assert run.summary["counted"] == {"bounds_not_holding": 1}


@pytest.mark.parametrize("high", [np.inf, 2.0**63])
def test_a_bound_beyond_all_integers_is_named(high):
    with pytest.raises(InputError, match="high of request 0 is"):
        simulate_engine(trace((4, 5)), Sarathi(), bounds=(np.array([1]), np.array([high])))


@pytest.mark.parametrize("seed", [-1, 1.5, 2**63])
def test_a_seed_that_no_draw_can_take_is_named(seed):
    with pytest.raises(InputError, match="simulate_engine: seed is"):
        simulate_engine(trace((4, 5)), Sarathi(), seed=seed)


PAUSING = [
    Mlfq(quantum=4.0),
    LeastAttained(),
    Srpt(),
    Srpt(makes_room=False),
    NestedWait(thresholds=(2, 1), ends=(6,)),
    Wait(thresholds=(2,)),
    Best(),
    Orca(),
    VanillaVllm(),
    WorkConserving(decode_cap=1),
    AMax(),
    AMin(),
    AEll(),
]


@pytest.mark.parametrize("door", ["plain", "compiled"])
@pytest.mark.parametrize("policy", PAUSING, ids=lambda p: type(p).__name__)
def test_by_default_as_many_hold_memory_as_may_run(policy, door):
    """vLLM's max_num_seqs: whoever pauses keeps its seat, so that nobody else can have it."""
    engine = Engine(token_budget=16, batch_limit=3)
    many = many_waiting()
    run = simulate_engine(many, policy, engine=engine, batch_time=Unit(), door=door)
    assert run.iterations is not None and run.totals.requests == len(many)
    assert run.iterations.running.max() <= 3


def many_waiting():
    rng = np.random.default_rng(3)
    outputs = rng.integers(1, 30, 60)
    return Trace(
        prompt_tokens=rng.integers(1, 40, 60),
        output_tokens=outputs,
        arrival_s=np.arange(60) * 2.0,
        output_low=outputs,
        output_high=outputs,
    )


@pytest.mark.parametrize("door", ["plain", "compiled"])
def test_without_a_resident_limit_more_hold_memory_than_run(door):
    engine = Engine(token_budget=16, batch_limit=3, resident_limit=0)
    run = simulate_engine(many_waiting(), Mlfq(quantum=4.0), engine=engine, batch_time=Unit(), door=door)
    assert run.iterations is not None and run.iterations.running.max() > 3


def test_srpt_evicts_for_a_place_as_it_does_for_memory():
    """One seat, 9 tokens to go against one: the short one takes the seat, or waits for it."""
    short = Trace(
        prompt_tokens=np.array([4, 4]),
        output_tokens=np.array([9, 1]),
        arrival_s=np.array([0.0, 2.0]),
        output_low=np.array([9, 1]),
        output_high=np.array([9, 1]),
    )
    for makes_room, ends in ((True, [10.0, 3.0]), (False, [9.0, 10.0])):
        policy = Srpt(makes_room=makes_room)
        run = simulate_engine(short, policy, engine=Engine(batch_limit=1), batch_time=Unit())
        assert run.requests.finished_s.tolist() == ends


@dataclasses.dataclass(frozen=True)
class AdmitsAll:
    """Gives the last of the queue a token, whoever holds memory."""

    def form_batch(self, view):
        tokens = np.zeros(view.left.size, np.int64)
        tokens[-1] = 1
        return BatchDecision(tokens, tokens < 0, view.memory)


def test_a_policy_that_lets_too_many_hold_memory_is_told_how_many():
    engine = Engine(batch_limit=5, resident_limit=2)
    with pytest.raises(PolicyError, match="lets 3 requests hold memory; resident_limit is 2"):
        simulate_engine(trace((9, 3), (9, 3), (9, 3)), AdmitsAll(), engine=engine)


@pytest.mark.parametrize(
    "options",
    [
        {"token_budget": -1},
        {"resident_limit": -1},
        {"batch_limit": 1.5},
        {"batch_limit": 1 << 70},
        {"kv_tokens": 10**400},
        {"block_tokens": 0},
        {"kv_tokens": 8, "block_tokens": 16},
        {"swap_s": (1.0, -1.0)},
        {"swap_s": 3.0},
        {"overhead_s": math.inf},
        {"overhead_s": "a"},
        {"token_budget": math.nan},
        {"token_budget": "many"},
        {"kv_tokens": None},
        {"overflow": "spill"},
        {"first_token": "never"},
        {"hold_produced": "yes"},
    ],
)
def test_a_bad_engine_names_its_field(options):
    with pytest.raises(InputError, match=next(iter(options))):
        Engine(**options)


def test_a_law_of_a_user_needs_only_its_table():
    usual = AffineKv(d0_s=1.0, d1_s=0.1)
    runs = [simulate_engine(trace((5, 2)), Sarathi(), batch_time=law) for law in (SimpleNamespace(table=usual.table), usual)]
    assert runs[0].totals.makespan_s == runs[1].totals.makespan_s > 0
