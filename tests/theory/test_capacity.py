"""Largest stable rates by hand-worked numbers."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from evenstep.cost.affine_kv import AffineKv
from evenstep.cost.batch import layout
from evenstep.cost.token_budget import TokenBudget
from evenstep.scheduling.policies.best import Best
from evenstep.scheduling.policies.class_first import ClassFirst
from evenstep.scheduling.policies.faster_transformer import FasterTransformer
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.policies.sjf import Sjf
from evenstep.scheduling.policies.srpt import Srpt
from evenstep.scheduling.policies.vanilla_vllm import VanillaVllm
from evenstep.scheduling.policies.vllm import Vllm
from evenstep.scheduling.policies.work_conserving import WorkConserving
from evenstep.theory.capacity import NO_BUDGET, Served, busiest, capped, closed_form, groups, phases_apart

#: 10 ms up to 100 tokens, then 0.1 ms a token.
LAW = TokenBudget(c_s=0.01, a_s=1e-4, b0=100.0)


@dataclass(frozen=True)
class Lines:
    """A batch time of straight lines through (tokens, seconds)."""

    tokens: tuple[float, ...]
    seconds_at: tuple[float, ...]

    def seconds(self, batch):
        return float(np.interp(batch.tokens, self.tokens, self.seconds_at))

    def table(self):
        return layout(tokens=np.array([self.tokens, self.seconds_at]))


def served(prefill, decode, law=LAW, **limits):
    return Served(law, np.array(prefill), np.array(decode), **limits)


def test_what_fills_every_batch_runs_a_budget_a_batch():
    """500 tokens take 50 ms: 10,000 tokens a second, 40 of a request."""
    one = served([10, 20], [20, 30], token_budget=500)
    for policy in (Sarathi(), WorkConserving()):
        found = closed_form(policy, one)
        assert found.requests_per_s == pytest.approx(250.0)
        assert "eq. 2.7" in found.says
    assert closed_form(Sarathi(), served([10], [30], token_budget=500, overhead_s=0.05)).requests_per_s == pytest.approx(125)


def test_a_group_takes_its_prefills_and_decodes_to_its_longest_output():
    """Two requests of 80 and outputs 1 and 3: prefill 160 tokens in 16 ms, then 3 decodes of 10 ms each: 2 in 46 ms."""
    assert groups(served([80, 80], [1, 3], token_budget=500), 2) == pytest.approx(2 / 0.046)
    # in budgets of 100: 160 tokens are two batches of 10 ms
    assert groups(served([80, 80], [1, 3], token_budget=100), 2) == pytest.approx(2 / 0.05)
    steep = TokenBudget(c_s=0.0, a_s=0.001, b0=0.0)  # decodes take 2, 1 and 1 ms
    assert groups(served([80, 80], [1, 3], steep), 2) == pytest.approx(2 / 0.164)
    # 100 tokens fill their budget; without a size a group is as many as there are seats
    assert groups(served([50, 50], [1, 3], token_budget=100), 2) == pytest.approx(2 / 0.04)
    assert groups(served([80, 80], [1, 3], token_budget=500, seats=2), 0) == pytest.approx(2 / 0.046)
    assert closed_form(FasterTransformer(group=1), served([80], [4], seats=5)).requests_per_s == pytest.approx(1 / 0.05)


def test_a_group_beyond_the_budget_decodes_as_many_as_fit_it():
    """3 requests of 2 tokens in budgets of 2: three prefills. Two decode at a time: outputs 2 and 1, then 3 after the 1: until
    2 both, until 4 one. 10 ms each."""
    flat = TokenBudget(c_s=0.01, a_s=0.0, b0=0.0)
    one = served([2, 2, 2], [2, 1, 3], flat, token_budget=2)
    assert groups(one, 3) == pytest.approx(3 / 0.07)
    steep = TokenBudget(c_s=0.0, a_s=0.01, b0=0.0)  # prefills of 20 ms; two decodes at a time take 20 ms, one takes 10
    assert groups(served([2, 2, 2], [2, 1, 3], steep, token_budget=2), 3) == pytest.approx(3 / (0.06 + 2 * 0.02 + 2 * 0.01))
    assert closed_form(FasterTransformer(group=3), one).requests_per_s == groups(one, 3)


def test_groups_of_all_that_wait_grow_until_they_fill_the_batches():
    found = closed_form(FasterTransformer(), served([10, 20], [20, 30], token_budget=500))
    assert found.requests_per_s == found.at_most == pytest.approx(250.0)
    assert closed_form(FasterTransformer(), served([10, 20], [20, 30], token_budget=500, seats=8)).requests_per_s < 250


#: Up to 64 tokens in 10 ms, 512 in half a second: full batches run fewer tokens a second.
SUPERLINEAR = Lines((0.0, 64.0, 512.0), (0.01, 0.01, 0.5))


def test_the_busiest_batch_stands_at_a_knot_or_at_the_budget():
    assert busiest(SUPERLINEAR, 512) == (64, 6400.0)
    assert busiest(SUPERLINEAR, 40) == (40, 4000.0)
    assert busiest(Lines((0.0, 2.5, 10.0), (1.0, 1.0, 9.0)), 10) == (2, 2.0)
    assert busiest(TokenBudget(c_s=0.0, a_s=0.001, b0=0.0), NO_BUDGET)[0] == NO_BUDGET  # all are alike
    assert busiest(SUPERLINEAR, 512, overhead_s=10.0)[0] == 512


@pytest.mark.parametrize("policy", [Sarathi(), VanillaVllm(), FasterTransformer(), WorkConserving(decode_cap=500), Best()])
def test_full_batches_that_run_fewer_tokens_a_second_bound_nothing(policy):
    """The rate of full batches stood above what runs of 16 seats served, as a bound for all policies."""
    found = closed_form(policy, served([10], [50], SUPERLINEAR, token_budget=512))
    assert found.requests_per_s is None and found.at_most == pytest.approx(6400 / 60)
    few = closed_form(Sarathi(), served([10], [50], SUPERLINEAR, token_budget=512, seats=16))
    assert few.requests_per_s == pytest.approx(31.4, rel=0.005)  # as the simulator found


def test_seats_that_would_fill_slow_batches_have_no_formula():
    """A seat decodes in 3 iterations of 4: 64 of them bring the 48 decodes of a full batch of 64, one less does not."""
    slow = Lines((0.0, 8.0, 64.0), (0.01, 0.01, 0.5))
    few, enough = (closed_form(Sarathi(), served([1], [3], slow, token_budget=64, seats=seats)) for seats in (63, 64))
    assert few.requests_per_s is not None and "seats full" in few.says
    assert enough.requests_per_s is None and enough.says == "batches of 8 tokens run more tokens a second than full ones"


def test_batches_without_a_time_have_no_closed_form():
    found = closed_form(Sarathi(), served([10], [50], TokenBudget(c_s=0.0, b0=64.0), token_budget=512))
    assert (found.requests_per_s, found.at_most) == (None, None)
    assert found.says == "some batches take no time"


def test_a_prompt_above_the_budget_keeps_its_seat_for_several_iterations():
    """25 tokens take 3 iterations of at most 10, then 4 decodes."""
    flat = TokenBudget(c_s=0.01, a_s=0.0, b0=0.0)
    one = served([25], [4], flat, token_budget=10, seats=1)
    assert closed_form(Vllm(), one).requests_per_s == pytest.approx(1 / 0.07)
    # as the simulator found, for constant and for geometric lengths (evenstep stability)
    long = closed_form(Vllm(), served([2000], [199], TokenBudget(), token_budget=256, seats=16)).requests_per_s
    assert 1.97 < long < 2.02
    many = served([2000], [199], TokenBudget(), token_budget=256, seats=57)
    assert closed_form(Vllm(), many).requests_per_s == closed_form(Vllm(), many).at_most


def test_prompts_that_keep_memory_for_several_iterations_have_no_formula():
    """14 requests fit, and each prompt takes 9 iterations; runs served 34 % less than the formula."""
    found = closed_form(Vllm(), served([2000], [199], TokenBudget(), token_budget=256, kv_tokens=30_000))
    assert found.requests_per_s is None and found.says == "no formula for prompts that keep memory for several iterations"
    assert (
        closed_form(Vllm(), served([200], [199], TokenBudget(), token_budget=256, kv_tokens=5_000)).requests_per_s
        is not None
    )


def test_prompts_that_wait_for_the_budget_keep_their_seats():
    """Two prompts of 200 do not fit an iteration of 256; the simulator found 20.4 to 21.5, and the formula had 23.5."""
    found = closed_form(Vllm(), served([200], [19], TokenBudget(), token_budget=256, seats=16)).requests_per_s
    assert found == pytest.approx(20.65, abs=0.01)


@pytest.mark.parametrize("seats", [3, 8])
def test_more_seats_than_tokens_of_a_batch_keep_it_full(seats):
    """The chain of waiting prompts has states that it never reaches. With them its equations are singular."""
    own = served([1], [1], token_budget=1, seats=seats)
    assert closed_form(Sarathi(), own).requests_per_s == pytest.approx(50.0)


def test_a_cap_on_decodes_takes_poisson_prompts():
    linear = TokenBudget(c_s=0.0, a_s=0.001, b0=0.0)
    one = served([30], [10], linear, token_budget=1 << 20)
    assert capped(one, 5) == pytest.approx(5 / (10 * 0.02), rel=0.01)  # 5 decodes, a mean of 15 tokens of prefill: 20 ms
    bent = served([129], [112], TokenBudget(), token_budget=512)
    assert capped(bent, 64) == pytest.approx(17.799, abs=0.001)
    assert closed_form(WorkConserving(decode_cap=64), bent).requests_per_s == capped(bent, 64)
    assert closed_form(WorkConserving(decode_cap=4096), bent).requests_per_s == pytest.approx(25.3548, abs=1e-4)


def test_a_cap_beyond_what_the_budget_takes_is_no_cap():
    """A budget of 40 holds 10 decodes and their 30 tokens of prefill, 40 ms: 25 requests/s. With whole prompts, Poisson one in an
    iteration, 10 ms without any, else 40 ms."""
    linear = TokenBudget(c_s=0.0, a_s=0.001, b0=0.0)
    one = served([30], [10], linear, token_budget=40, seats=1000)
    assert capped(one, 1000) == pytest.approx(1 / (0.01 / math.e + 0.04 * (1 - 1 / math.e)))
    assert closed_form(Sarathi(), one).requests_per_s == pytest.approx(25.0)


def test_memory_holds_as_many_requests_as_their_mean_over_time():
    """Prompt 3, output 2: 4 and 5 tokens held, 4.5 on average, so 45 tokens hold ten."""
    one = served([3], [2], kv_tokens=45)
    assert one.in_hand == pytest.approx(10)
    assert closed_form(Sarathi(), one).says.startswith("memory full")
    assert served([3], [2], kv_tokens=45, seats=4).in_hand == 4
    assert math.isinf(served([3], [2]).in_hand)


@pytest.mark.slow
def test_phases_apart_alternate_prompts_and_decodes():
    """One seat, flat 10 ms: a decode every 10 ms, a prompt of its own after 1 - exp(-1/4) of them."""
    flat = TokenBudget(c_s=0.01, a_s=0.0, b0=0.0)
    one = served([8], [4], flat, token_budget=1024, seats=1)
    assert phases_apart(one) == pytest.approx(0.25 / (0.01 + 0.01 * (1 - math.exp(-0.25))))
    # no seats: as the simulator found for prompts and outputs of 32 tokens (68.13, evenstep stability)
    assert phases_apart(served([32], [32], TokenBudget(), token_budget=512)) == pytest.approx(68.09, abs=0.02)


def test_prompts_of_which_one_fits_a_batch_are_a_busy_period():
    """A prompt of 35 fills its batch of 40: 1 s, and 1.1 s a batch of 40 decodes. A cycle of T seconds has r T prompts of a second
    each, T = 1.1 / (1 - r), and 11 r T decodes, which are 40 at the limit: 12.1 r = 40 (1 - r)."""
    late = TokenBudget(c_s=1.0, a_s=0.05, b0=38.0)
    assert phases_apart(served([35], [11], late, token_budget=40)) == pytest.approx(40 / 52.1, rel=2e-4)


def test_a_formula_for_memory_says_how_far_it_is_off():
    full = served([30], [10], token_budget=500, kv_tokens=900)
    for policy in (Sarathi(), VanillaVllm()):
        assert "memory full" in closed_form(policy, full).says and "40 % too high" in closed_form(policy, full).says
        assert "too high" not in closed_form(policy, served([30], [10], token_budget=500, seats=4)).says
        assert "too high" not in closed_form(policy, served([30], [10], token_budget=500)).says
    assert closed_form(FasterTransformer(), full).requests_per_s is None


def test_memory_for_few_requests_has_no_formula():
    """1.3 times the memory of a request holds 1.7 on average, of which one fits; runs served 44 % less than the formula."""
    for policy in (Sarathi(), VanillaVllm(), WorkConserving(decode_cap=8)):
        few = closed_form(policy, served([129], [112], token_budget=512, kv_tokens=313))
        assert few.requests_per_s is None and few.at_most is not None
        assert few.says == "memory holds 1.7 requests on average, and only whole ones fit: the formula needs 3"
        assert closed_form(policy, served([129], [112], token_budget=512, kv_tokens=600)).requests_per_s is not None


@pytest.mark.parametrize("policy", [Sarathi(), ClassFirst(), Sjf(), Srpt()])
def test_a_policy_may_fill_batches_in_any_order(policy):
    assert closed_form(policy, served([10], [30], token_budget=500)).requests_per_s == pytest.approx(250.0)


def test_why_there_is_no_closed_form_is_said():
    kv = closed_form(Sarathi(), served([10], [30], AffineKv(), token_budget=500))
    assert (kv.requests_per_s, kv.at_most) == (None, None)
    assert "more than the tokens" in kv.says
    paced = closed_form(Best(), served([10], [30], token_budget=500))
    assert paced.requests_per_s is None
    assert paced.at_most == pytest.approx(250.0)
    ranks = closed_form(Sarathi(), served([10], [30], token_budget=500, ranks=3))
    assert ranks.requests_per_s is None and "lock-step" in ranks.says and ranks.at_most == pytest.approx(750.0)
    assert closed_form(WorkConserving(prefill_cap=2), served([10], [30])).requests_per_s is None
    assert closed_form(VanillaVllm(), served([10], [30], token_budget=500)).requests_per_s < 250


def test_the_lower_one_of_a_cap_and_a_limit_counts():
    seats, cap = (closed_form(WorkConserving(decode_cap=n), served([10], [30], seats=4)).requests_per_s for n in (9, 4))
    assert seats == cap is not None


def test_a_request_keeps_its_seat_for_its_prefill_too():
    """8 seats, outputs of 5 tokens with the first from the prefill: 5 iterations of 10 ms a request."""
    one = served([10], [4], token_budget=500, seats=8)
    assert closed_form(Sarathi(), one).requests_per_s == pytest.approx(8 / 0.05)


def test_prefills_in_small_chunks_have_no_formula_where_seats_are_short():
    """A prompt of 1,000 tokens in chunks of 16 keeps its seat for 63 iterations."""
    capped = Vllm(long_prefill_token_threshold=16)
    assert closed_form(capped, served([1000], [10], seats=8)).requests_per_s is None
    assert closed_form(Vllm(), served([1000], [10], seats=8)).requests_per_s is not None
    assert closed_form(capped, served([1000], [10])).requests_per_s is not None


def test_many_prompts_an_iteration_all_count():
    """Half of 200 requests end in an iteration: 100 decodes and 100 prompts of 10 tokens, 110 ms at 0.1 ms a token."""
    linear = TokenBudget(c_s=0.0, a_s=1e-4, b0=0.0)
    one = served([10], [1], linear, token_budget=1 << 20, seats=200)
    assert closed_form(Sarathi(), one).requests_per_s == pytest.approx(100 / 0.11, rel=0.001)
    apart = closed_form(VanillaVllm(), served([10], [1], linear, token_budget=1 << 20, seats=500))
    assert apart.requests_per_s == pytest.approx(500 / (0.05 + 0.5), rel=0.001)
    assert closed_form(VanillaVllm(), served([1], [9], token_budget=1 << 12)).requests_per_s is None


@pytest.mark.parametrize("policy", [Sarathi(), VanillaVllm(), FasterTransformer()])
def test_outputs_of_one_token_have_no_formula_with_a_limit(policy):
    found = closed_form(policy, served([129], [0], token_budget=500, seats=8, kv_tokens=4000))
    assert found.requests_per_s is None and "outputs of one token" in found.says
    assert found.at_most == pytest.approx(500 / 0.05 / 129)
    assert closed_form(Sarathi(), served([129], [0], token_budget=500)).requests_per_s == found.at_most
