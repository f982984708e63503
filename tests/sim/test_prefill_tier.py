"""When prompts come out of a prefill tier, by hand."""

import numpy as np
import pytest

from evenstep.cost.token_budget import TokenBudget
from evenstep.errors import InputError
from evenstep.request import Trace
from evenstep.routing.policies.jsq import policy as jsq
from evenstep.sim.cluster.simulation import Cluster, simulate
from evenstep.sim.prefill_tier import PrefillTier

#: A millisecond a token.
LAW = TokenBudget(c_s=0.0, a_s=0.001, b0=0.0)


def prompts(*rows):
    tokens, times = zip(*rows, strict=True)
    return Trace(np.array(tokens), np.full(len(tokens), 9), arrival_s=np.array(times))


def test_one_prefiller_batches_what_waits_up_to_its_budget():
    """100 tokens run alone; then 100 + 50 of the three that came meanwhile; then the third."""
    ready = PrefillTier(1, LAW, token_budget=150).ready(prompts((100, 0.0), (100, 0.01), (50, 0.02), (60, 0.03)))
    assert ready.arrival_s.tolist() == pytest.approx([0.1, 0.25, 0.25, 0.31])
    assert ready.prompt_tokens.tolist() == [100, 100, 50, 60]


def test_a_prompt_goes_to_the_prefiller_with_the_fewest_tokens_left_and_may_overtake():
    ready = PrefillTier(2, LAW, token_budget=1000).ready(prompts((900, 0.0), (100, 0.0), (100, 0.05)))
    assert ready.arrival_s.tolist() == pytest.approx([0.1, 0.2, 0.9])
    assert ready.prompt_tokens.tolist() == [100, 100, 900]


def test_more_than_the_tier_can_do_comes_out_at_its_pace():
    tier = PrefillTier(2, LAW, token_budget=500)
    assert tier.tokens_per_s == pytest.approx(2000)
    ready = tier.ready(prompts(*((100, 0.025 * n) for n in range(400))))  # 4,000 tokens a second
    assert ready.arrival_s[-1] == pytest.approx(400 * 100 / 2000, rel=0.02)


def test_bad_tiers_and_traces_without_times_are_refused():
    for prefillers in (0, 2.5, None):
        with pytest.raises(InputError, match=f"prefillers is {prefillers}; expected an integer >= 1"):
            PrefillTier(prefillers, LAW)
    with pytest.raises(InputError, match="arrival_s"):
        PrefillTier(1, LAW).ready(Trace(np.array([1]), np.array([1])))


def test_a_cluster_gets_its_requests_when_their_prompts_are_ready():
    tier, trace = PrefillTier(2, LAW, token_budget=1000), prompts((900, 0.0), (100, 0.0), (100, 0.05))
    behind = simulate(trace, jsq(), cluster=Cluster(2, 2, arrivals="timed", prefill=tier))
    assert behind.requests.visible_s.tolist() == pytest.approx([0.1, 0.2, 0.9])
    assert behind.digest == simulate(tier.ready(trace), jsq(), cluster=Cluster(2, 2, arrivals="timed")).digest


def test_a_tier_needs_timed_arrivals():
    with pytest.raises(InputError, match="timed arrivals"):
        Cluster(prefill=PrefillTier(1, LAW))
