"""The largest stable rate of one engine in closed form, for the policies that have one.

Symbols: a request runs m_p prefill and m_d decode tokens on average. An iteration of b' tokens lasts t(b') and runs at most
b. At most N requests are in hand. Every formula needs a batch time that depends on its tokens alone.

Source: Throughput-optimal Theorem 1 and sec. 3. The paper gives no rate for the policies that do not mix phases, nor for a
    cap on requests. Those formulas are ours; each docstring gives their assumptions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenstep.cost import batch
from evenstep.cost.batch import Batch, BatchTime
from evenstep.request import F8, I8
from evenstep.scheduling.policies.class_first import ClassFirst
from evenstep.scheduling.policies.faster_transformer import FasterTransformer
from evenstep.scheduling.policies.orca import Orca
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.scheduling.policies.sjf import Sjf
from evenstep.scheduling.policies.srpt import Srpt
from evenstep.scheduling.policies.vanilla_vllm import VanillaVllm
from evenstep.scheduling.policies.vllm import Vllm
from evenstep.scheduling.policies.work_conserving import WorkConserving
from evenstep.scheduling.view import SchedulingPolicy

#: Policies that fill the budget whenever enough requests, seats and memory allow, unless they have caps of their own.
_CONSERVING = (Sarathi, Orca, Vllm, WorkConserving, ClassFirst, Sjf, Srpt)
#: States of the chain of `phases_apart`, at least and at most; its matrix has the square of them.
_FEWEST_WAITING, _MOST_WAITING = 200, 1000
#: Error of formulas that assume memory is always full, as measured in runs with memory for 3 to 60 requests.
_MEMORY_OFF = "; 10 % too low to 40 % too high, as admission leaves room"
#: Least mean number of requests in memory for these formulas. Only whole requests fit: at 1.4 to 2 of them, the
#: formula was 30 to 110 % above the runs.
FEWEST = 3
#: The token budget that stands for no limit.
NO_BUDGET = 1 << 24
#: More seats change nothing beyond `_ENOUGH` times the decodes of a full batch plus `_SPARE`.
_ENOUGH, _SPARE = 2, 10
#: States of the chain of `seated`, approximately, and the most states for one prompt.
_STATES, _PARTS = 800, 32
#: Rounding error of a number of prompts.
_ROUNDING = 1e-9
#: Rates in tokens a second count as equal within this share.
_SAME = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """The facts of an engine and its requests that the formulas need."""

    law: BatchTime  # batch time; it must depend on the tokens only (`by_tokens`), or `closed_form` gives no rate
    prefill: I8  # int64[*], tokens that each request of a sample runs as prefill; one request at least
    decode: I8  # int64[*], tokens that each of them runs as decodes
    token_budget: int = 0  # b, tokens of an iteration at most; 0 = no limit
    seats: int = 0  # requests in hand (admitted and not finished) at most; 0 = no limit
    kv_tokens: int = 0  # M, KV tokens of memory; 0 = no limit
    overhead_s: float = 0.0  # seconds of an iteration on top of its batch
    ranks: int = 1  # data-parallel ranks, each with such a budget, seats and memory

    @property
    def budget(self) -> int:
        """b; `NO_BUDGET` without a limit."""
        return self.token_budget or NO_BUDGET

    @property
    def m_p(self) -> float:
        """Mean prefill tokens of a request."""
        return float(self.prefill.mean())

    @property
    def m_d(self) -> float:
        """Mean decode tokens of a request."""
        return float(self.decode.mean())

    @property
    def in_hand(self) -> float:
        """Mean number of requests that fit at a time: the seats, or fewer if memory holds only M E[o] / E[sum_{k<=o} s + k].

        s and o are a request's `prefill` and `decode`. inf if neither limits.
        """
        seats = float(self.seats or math.inf)
        if not self.kv_tokens:
            return seats
        s, o = self.prefill.astype(float), self.decode.astype(float)
        return min(seats, self.kv_tokens * self.m_d / float((o * s + o * (o + 1) / 2).mean()))

    def seconds(self, tokens: float) -> float:
        """t(b'): seconds of an iteration of `tokens`, rounded to a whole number of tokens, with `overhead_s`."""
        return self.law.seconds(Batch(tokens=round(tokens))) + self.overhead_s


@dataclass(frozen=True, slots=True)
class Closed:
    """The largest stable rate of a policy in closed form, or the reason why there is no closed form."""

    requests_per_s: float | None  # the largest stable rate; None where there is no formula
    says: str  # the formula, or the reason
    #: an upper bound of the stable rate of every policy, requests a second; None if none is known
    at_most: float | None = None


def by_tokens(law: BatchTime) -> bool:
    """Whether an iteration's time depends on its tokens only."""
    others = [batch.PER_KV, batch.PER_SQUARE, batch.PER_CROSSED, batch.PER_DECODE, batch.REQUEST_KNOTS, batch.GRID]
    return not law.table()[others].any()


def conserves(policy: SchedulingPolicy) -> bool:
    """Whether Theorem 1 covers a policy: it fills the budget whenever there are enough requests to run, a seat and memory.

    False for a `WorkConserving` with a cap, and for every class that neither is nor extends one of `_CONSERVING`.
    """
    is_capped = isinstance(policy, WorkConserving) and (policy.decode_cap or policy.prefill_cap)
    return isinstance(policy, _CONSERVING) and not is_capped


def busiest(law: BatchTime, budget: int, overhead_s: float = 0.0) -> tuple[int, float]:
    """Find the batch of at most `budget` tokens that runs the most tokens a second. Returns its tokens x, and x / t(x).

    The full batch wins ties, within a share of 1e-9. Between two knots of a law, x / t(x) only rises or only falls, so only
    knots and ends are tried. The second number is inf where a batch takes no time.

    Args:
        law: batch time by tokens alone (`by_tokens`).
        budget: b, tokens of an iteration at most, >= 1; `NO_BUDGET` where there is no limit.
        overhead_s: seconds of an iteration on top of its batch.
    """

    def per_s(tokens: int) -> float:
        seconds = law.seconds(Batch(tokens=tokens)) + overhead_s
        return tokens / seconds if seconds else math.inf

    table = law.table()
    knots = table[batch.HEAD : batch.HEAD + int(table[batch.TOKEN_KNOTS])]
    near = {min(max(1, int(tokens)), budget) for tokens in (*np.floor(knots), *np.ceil(knots))}
    best = max(sorted(near | {1, budget}), key=per_s)
    return (best, per_s(best)) if per_s(best) > (1 + _SAME) * per_s(budget) else (budget, per_s(budget))


def closed_form(policy: SchedulingPolicy, served: Served) -> Closed:
    """The largest stable rate of a policy, requests a second, or the reason why there is no closed form, as for ranks > 1.

    `Closed.at_most` is the rate at which the `busiest` batches of all ranks serve requests: Theorem 1's rate, if these are
    the full batches. It is None only if the batch time depends on more than tokens, or a batch takes no time.
    """
    if not by_tokens(served.law):
        return Closed(None, "the batch time depends on more than the tokens of the batch, as Theorem 1 does not allow")
    best, tokens_per_s = busiest(served.law, served.budget, served.overhead_s)
    if math.isinf(tokens_per_s):
        return Closed(None, "some batches take no time")
    most = served.ranks * tokens_per_s / (served.m_p + served.m_d)
    rate, says = _formula(policy, served, best)
    return Closed(None if rate is None else min(most, rate), says, most)


def _formula(policy: SchedulingPolicy, served: Served, best: int) -> tuple[float | None, str]:
    """The closed form, requests a second, and its name; or None, and the reason. `best` is `busiest`'s batch in tokens."""
    if served.ranks > 1:
        return None, "each iteration of ranks in lock-step lasts as long as its slowest batch"
    if not served.m_d and (served.seats or served.kv_tokens or not conserves(policy)):
        return None, "outputs of one token have no decodes, which the formula needs"
    limit = "seats" if served.in_hand == served.seats else "memory" if served.kv_tokens else ""
    if limit == "memory" and served.in_hand < FEWEST:
        says = f"memory holds {served.in_hand:.2g} requests on average, and only whole ones fit: the formula needs {FEWEST}"
        return None, says
    full = None if best == served.budget else f"batches of {best} tokens run more tokens a second than full ones"
    if isinstance(policy, FasterTransformer):
        if limit == "memory":
            return None, "no formula for groups that memory limits"
        if not limit and not policy.group:
            return (None, full) if full else (conserving(served), "groups of all that wait fill the batches (ours)")
        return groups(served, policy.group), "groups of prefills, then decodes to the longest output"
    if isinstance(policy, VanillaVllm):
        if not limit and (full or _states(served) > _MOST_WAITING):
            return None, full or f"no formula where a batch holds almost {_MOST_WAITING} prompts"
        says = "prefills and decodes apart" + (f", {limit} full" if limit else "")
        return phases_apart(served), says + (f" (ours{_MEMORY_OFF})" if limit == "memory" else "")
    cap = policy.decode_cap if isinstance(policy, WorkConserving) else 0
    if isinstance(policy, WorkConserving) and policy.prefill_cap:
        return None, "no formula for a cap on prefills"
    if not cap and not conserves(policy):
        return None, "the policy may leave part of the budget unused, so Theorem 1 only bounds it"
    return _mixed(policy, served, cap, limit, full)


def _mixed(policy: SchedulingPolicy, served: Served, cap: int, limit: str, full: str | None) -> tuple[float | None, str]:
    """`_formula` of the policies that mix phases and fill the budget, with at most `cap` decodes (0 = no cap).

    `limit` names the limit of the requests in hand: ``seats``, ``memory`` or empty. `full` is the reason why full batches
    are not the `busiest` ones, None if they are.
    """
    filled = served.budget * served.m_d / (served.m_p + served.m_d)
    in_hand = served.in_hand * served.m_d / (served.m_d + 1) if limit == "seats" else served.in_hand
    decodes = min(cap or math.inf, in_hand)
    if full and decodes >= filled:
        return None, full
    if math.isinf(decodes):
        return conserving(served), "b / t_b / (m_p + m_d) (Throughput-optimal eq. 2.7)"
    if isinstance(policy, Vllm) and policy.long_prefill_token_threshold:
        return None, f"no formula for prefills in small chunks that keep their {limit}"
    if limit == "memory" and decodes == in_hand and served.m_p > served.budget - min(decodes, filled):
        return None, "no formula for prompts that keep memory for several iterations"
    if limit == "seats":
        rate, says = seated(served), "seats full, a prompt for each request that ends (ours)"
    else:
        rate, says = capped(served, decodes), f"memory full, Poisson prompts in every iteration (ours{_MEMORY_OFF})"
    if cap:
        rate, says = min(rate, capped(served, cap)), "a cap on decodes, with Poisson prompts (ours)"
    return rate, says


def conserving(served: Served) -> float:
    """Requests a second of one rank under a policy that fills every batch: b / t_b / (m_p + m_d) (eq. 2.7)."""
    return served.budget / served.seconds(served.budget) / (served.m_p + served.m_d)


def capped(served: Served, cap: float) -> float:
    """Requests a second of one rank with at most `cap` decodes and a Poisson number of whole prompts an iteration.

    x / (m_d E[t(min(b, x + m_p k))]), with x = min(cap, b m_d / (m_p + m_d)) decodes an iteration, and k prompts, of mean
    x / m_d. The formula neglects that prompt tokens beyond b have to wait. m_d > 0 is required, not checked.
    """
    x = min(cap, served.budget * served.m_d / (served.m_p + served.m_d))
    chance = _poisson(x / served.m_d)
    seconds = [served.seconds(min(x + served.m_p * k, served.budget)) for k in range(chance.size)]
    return x / (served.m_d * float(chance @ np.array(seconds)))


def seated(served: Served) -> float:
    """Requests a second of one rank with all seats taken: each request that ends is replaced by a prompt at once.

    The prompt tokens not yet run are a Markov chain. Prompts are of mean length and run in turn, in the budget that decodes
    leave. Each request that decodes or ends its prefill ends with chance 1 / (m_d + 1). With seats far beyond the decodes of
    a full batch the rate is `conserving`. `seats` > 0 and m_d > 0 are required, not checked.
    """
    filled = served.budget * served.m_d / (served.m_p + served.m_d)
    if served.seats > _ENOUGH * filled + _SPARE:
        return conserving(served)
    each = min(float(_PARTS), _STATES / served.seats)  # states a prompt
    left = np.arange(math.ceil(each * served.seats) + 1) / each  # prompts, and parts of them
    held = _whole(left)
    decodes = np.minimum(served.seats - held, served.budget)
    runs = np.minimum(left * served.m_p, served.budget - decodes)
    after = left - runs / served.m_p
    may_end = decodes + held - _whole(after)
    moves = np.zeros((left.size, left.size))
    for state in range(left.size):
        chance = _binomial(round(may_end[state]), 1 / (served.m_d + 1))
        place = np.minimum((after[state] + np.arange(chance.size)) * each, left.size - 1)
        lower = np.floor(place + _ROUNDING).astype(np.int64)
        share = np.maximum(place - lower, 0.0)  # of two neighbours, so that the mean is kept
        np.add.at(moves[state], lower, chance * (1 - share))
        np.add.at(moves[state], np.minimum(lower + 1, left.size - 1), chance * share)
    found = _reached(moves)
    moves, decodes, runs = moves[np.ix_(found, found)], decodes[found], runs[found]
    balance = np.eye(runs.size) - moves.T
    balance[-1] = 1.0
    often = np.linalg.solve(balance, np.eye(runs.size)[-1])
    seconds = np.array([served.seconds(tokens) for tokens in decodes + runs])
    return float(often @ decodes) / (served.m_d * float(often @ seconds))


def _reached(moves: F8) -> NDArray[np.bool_]:
    """bool[S], the states that a Markov chain reaches from state 0; `moves` are its chances, float64[S, S]."""
    found, more = np.zeros(len(moves), bool), np.arange(len(moves)) == 0
    while more.sum() > found.sum():
        found, more = more, more | (moves[more] > 0).any(axis=0)
    return found


def _whole(prompts: F8) -> F8:
    """How many prompts have tokens left, where `prompts` counts a part of a prompt as a fraction."""
    return np.ceil(prompts - _ROUNDING)


def groups(served: Served, group: int) -> float:
    """Requests a second of one rank that runs groups in turn: all prefills in full batches and a rest, then all decodes.

    At most b requests of a group decode at a time; when one ends, the next takes its place. The sample is cut in order into
    groups of `group` requests (0 = no limit), or fewer if fewer fit (`in_hand`) or are given; a rest is left out.
    """
    size = int(min(group or math.inf, served.in_hand, served.decode.size))
    count, width = served.decode.size // size * size, min(size, served.budget)
    alive_s = np.array([served.seconds(n) for n in range(width + 1)])
    decode = served.decode[:count].reshape(-1, size)
    ends, rows = decode[:, :width].copy(), np.arange(count // size)
    for place in range(width, size):
        ends[rows, ends.argmin(axis=1)] += decode[:, place]
    lasting = np.diff(np.sort(ends, axis=1), axis=1, prepend=0)
    whole, rest = np.divmod(served.prefill[:count].reshape(-1, size).sum(axis=1), served.budget)
    rest_s = np.array([served.seconds(int(tokens)) if tokens else 0.0 for tokens in rest])
    seconds = whole * served.seconds(served.budget) + rest_s + lasting @ alive_s[:0:-1]
    return count / float(seconds.sum())


def phases_apart(served: Served) -> float:
    """Requests a second of one rank of vanilla vLLM: whole prompts while any wait, else a decode of each request.

    With a limit on requests in hand, N = min(`in_hand`, b) run at the largest rate. A Poisson number of requests, N / m_d
    on average, ends in an iteration of decodes, and as many prompts run in batches of their own. Without a limit, decodes
    fill the budget. Prompts then run in batches, as many of the waiting ones as fit, until none waits. The waiting prompts
    are a Markov chain. Prompts are of mean length. m_d > 0 is required, not checked.
    """
    if not math.isinf(served.in_hand):
        seats = min(served.in_hand, served.budget)
        chance = _poisson(seats / served.m_d)
        prefill_s = np.array([_prompts_s(served, k) for k in range(chance.size)])
        return float(seats / served.m_d / (served.seconds(seats) + chance @ prefill_s))
    low, high = 0.0, conserving(served)
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if middle * served.m_d * _cycle_s(served, middle) <= served.budget else (low, middle)
    return low


def _prompts_s(served: Served, prompts: int) -> float:
    """Seconds to run `prompts` prompts of mean length, in batches of a whole budget and a rest."""
    whole, rest = divmod(prompts * served.m_p, served.budget)
    return whole * served.seconds(served.budget) + (served.seconds(rest) if rest else 0.0)


def _fits(served: Served) -> int:
    """Prompts of mean length that fit an iteration, at least one."""
    return max(1, int(served.budget // served.m_p))


def _states(served: Served) -> int:
    """Number of states of the chain in `_cycle_s`: more waiting prompts than that are too rare to matter."""
    return max(_FEWEST_WAITING, _terms(2 * _fits(served)))


def _cycle_s(served: Served, rate: float) -> float:
    """Seconds from one full batch of decodes to the next, prompts of Poisson arrivals in between; inf if they never end."""
    states, decode_s = _states(served), served.seconds(served.budget)
    taken = np.minimum(np.arange(states), _fits(served))
    batch_s = np.array([_prompts_s(served, int(k)) for k in taken])
    moves = np.zeros((states, states))
    for waiting in range(1, states):
        left = waiting - taken[waiting]
        moves[waiting, left:] = _poisson(rate * batch_s[waiting], states)[: states - left]
    clear_s = np.linalg.solve(np.eye(states) - moves, batch_s)
    first = _poisson(rate * decode_s, states)
    return math.inf if clear_s.min() < 0 else decode_s + float(first @ clear_s)


def _terms(mean: float) -> int:
    """A number that a Poisson number of this mean reaches with a chance below 1e-15."""
    return math.ceil(mean + 10 * math.sqrt(mean) + 20)


def _poisson(mean: float, terms: int | None = None) -> F8:
    """float64[terms], chances that a Poisson number is 0, 1, ...; as many as matter if `terms` is None."""
    count = _terms(mean) if terms is None else terms
    logs = np.concatenate([[0.0], np.cumsum(np.log(mean) - np.log(np.arange(1, count)))])
    return np.exp(logs - mean)


def _binomial(count: int, share: float) -> F8:
    """float64[*], chances that 0, 1, ... of `count` end, each with chance `share` (0 to 1, exclusive); as many as matter."""
    k = np.arange(1, min(count, _terms(count * share)) + 1)
    logs = np.cumsum(np.log((count - k + 1) / k * share / (1 - share)))
    return np.exp(count * math.log1p(-share) + np.concatenate([[0.0], logs]))
