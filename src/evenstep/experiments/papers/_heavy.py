"""Synthetic workloads that stand in where long prompts or capped outputs decide: heavy, and near a cap."""

from __future__ import annotations

from evenstep.cost.linear import Linear
from evenstep.workload.synthetic.laws import Bimodal, Capped, Lognormal, Pareto, Uniform
from evenstep.workload.synthetic.synthetic import Recurring, Synthetic

#: A large model whose fixed part of a step is long: 60 ms, and 2e-7 s a KV token.
STEP_TIME = Linear(overhead_s=0.06, per_token_s=2e-7)
#: Number of recurring prompts, and how far their outputs spread, tokens.
KEYS, JITTER = 300, 3


def heavy(requests: int, recurring: bool = False) -> Synthetic:
    """A generator of `requests` requests: prompts of median 4,000 tokens, outputs Pareto of mean 500, cut at 2,000 tokens.

    With `recurring` each has one of 300 recurring prompts, and an output within 3 tokens of the prompt's own.
    """
    return Synthetic(
        requests,
        prompt=Lognormal(sigma=1.1, median=4000, low=16, high=60_000),
        output=Capped(Pareto(alpha=1.6, mean=500), cap=2000),
        recurring=Recurring(KEYS, JITTER) if recurring else None,
        name="heavy, recurring" if recurring else "heavy",
    )


def near_cap(requests: int) -> Synthetic:
    """A generator of `requests` requests of which 85 % produce 989 to 1,000 tokens, a cap, and the rest 1 to 988."""
    return Synthetic(
        requests,
        prompt=Lognormal(sigma=0.9, mu=7.1, low=1, high=14_000),
        output=Bimodal(0.85, Uniform(989, 1000), Uniform(1, 988)),
        name="near-cap",
    )


#: Lines of a table of constants (`vocabulary.constants`): `heavy`, `heavy` with recurring prompts, `near_cap`, `STEP_TIME`.
_LAWS = "prompts lognormal(median 4000, sigma 1.1) in 16..60000, outputs Pareto(1.6) of mean 500 cut at 2000"
_LOST = "the trace is proprietary; its moments are lost from the text"
HEAVY_LINE = f"heavy | {_LAWS} | {_LOST}"
RECURRING_LINE = f"heavy | {_LAWS}; {KEYS} prompts that come back, outputs ±{JITTER} | {_LOST}"
NEAR_CAP_LINE = (
    "near cap | prompts lognormal(7.1, 0.9) up to 14,000; 85 % of outputs in 989..1000, the rest below | "
    "Azure-2024 filtered to long outputs is cap-bounded; its moments are lost from the text"
)
STEP_TIME_LINE = (
    f"step time | {STEP_TIME.overhead_s:g} s + {STEP_TIME.per_token_s:g} s/token | "
    "not given; near the step times that the tables' TPOT implies"
)
