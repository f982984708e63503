"""The input and the answer of an engine scheduling policy, which is asked once an iteration.

A policy is written in one of two ways: as `SchedulingPolicy.form_batch`, with an `EngineView` in and a `BatchDecision` out,
or as a rule (`scheduling.rules`), which reads a `RuleView` and is compiled. Compiled loops call a rule through a function
``form_batch_into``, which is generated for it::

    form_batch_into(iteration, seed, now_s, limits, running, waiting, first, counts,
                    rows, arrival_s, arrived, memory, parameters,
                    scratch_i, scratch_f, picked, evicted) -> wake_s

===========  =============  ==============================================================================================
argument     type           meaning
===========  =============  ==============================================================================================
iteration    int64          number of this iteration, counted from 0
seed         int64          key of every random draw (`draws.uniform`)
now_s        float64        the host's time
limits       int64[8]       `TOKEN_BUDGET`, `BATCH_LIMIT`, `KV_CAPACITY`, `KV_FREE`, `BLOCK_TOKENS`, `HOLD_PRODUCED`,
                            `FIRST_DECODED`, `RESIDENT_LIMIT`
running      int64[*]       rows of the R requests that hold KV memory, in order of admission
waiting      int64[*]       rows of the W waiting requests, from index `first` on, in the policy's `order`
first        int64          index in `waiting` of the first waiting request
counts       int64[4]       in: `RUNNING` (R), `WAITING` (W); out: `PICKED`, `EVICTED`, how many entries were written
rows         int64[13, *]   facts of each request, by its row: `ID` .. `LOST_AT`; in Fortran order; read-only
arrival_s    float64[*]     by row
arrived      int64[C]       requests of each class that have arrived so far
memory       int64[M]       words that the policy keeps from one decision to the next; changed in place
parameters   float64[P]     the policy's fields (`compiled.parameters`)
scratch_i    int64[*]       working space of the length that ``scratch`` returns
scratch_f    float64[*]     working space
picked       int64[2, R+W]  answer: positions (0..R-1 running, R.. waiting; those waiting in ascending order), tokens to run
evicted      int64[R]       answer: positions of running requests to evict
===========  =============  ==============================================================================================

``scratch(running, waiting, parameters) -> (ints, floats)``, from the same module, gives the lengths of the working space.
Requests whose positions are not written run nothing and keep what they hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from evenstep.compiled import ReadFloats, ReadInts
from evenstep.request import F8, I8
from evenstep.wording import of_other_class

# Indices into the arguments `limits`, `counts` and `rows` of ``form_batch_into``.
(TOKEN_BUDGET, BATCH_LIMIT, KV_CAPACITY, KV_FREE, BLOCK_TOKENS, HOLD_PRODUCED, FIRST_DECODED, RESIDENT_LIMIT) = range(8)
LIMITS = 8
RUNNING, WAITING, PICKED, EVICTED = range(4)
(ID, CLASS, PROMPT, PREFILLED, PRODUCED, REACHED, LEFT, RESIDENT, LOW, HIGH, EVICTIONS, DECODING, LOST_AT) = range(13)
#: The value of a limit that is not set.
UNLIMITED = 1 << 40


@dataclass(frozen=True, slots=True, eq=False)
class EngineView:
    """One engine before an iteration: N requests, of which the first R are running (they hold memory) and the others wait.

    Running requests are in order of admission, waiting ones in the policy's `order`. A position is an index into the arrays.
    A policy must not write to them.

    Args:
        iteration: number of this iteration, counted from 0.
        seed: key of every random draw.
        now_s: the host's time, seconds; an observation, not a clock.
        token_budget: tokens an iteration may run, prefills and decodes together; `UNLIMITED` without a limit.
        batch_limit: requests an iteration may run; `UNLIMITED` without a limit.
        kv_capacity, kv_free: KV tokens of the whole memory, and those of them that no request holds; whole blocks.
        block_tokens: KV tokens of a block; a request holds whole blocks.
        hold_produced: 1 if a request also holds memory for the token it produced last, whose KV is computed next, else 0.
        arrived: int64[C], requests of each class that have arrived so far, finished ones included.
        memory: int64[M], the words that the policy asked to keep at its last decision.
        request_id, request_class, prompt_tokens: int64[N].
        prefilled: int64[N], tokens of prompt and output whose KV has been computed (of a swapped request: kept elsewhere).
        produced: int64[N], output tokens so far; after a restart from zero, since then.
        reached: int64[N], the most output tokens it had at any eviction; 0 before the first. More than `produced` after a
            restart from zero.
        lost_at: int64[N], the output tokens it had at the last eviction; 0 before the first.
        left: int64[N], tokens it could run now: the rest of its prefill, or 1 when it decodes.
        resident: int64[N], KV tokens of memory it holds, whole blocks; 0 while it waits.
        output_low, output_high: int64[N], believed bounds of the output length, tokens; 0 and 0 without bounds.
        evictions: int64[N], times it was evicted, so lost its memory.
        arrival_s, waited_s: float64[N], seconds: the host's time of arrival, and the time since then.
        running, decoding: bool[N], whether it holds memory, paused or not; whether it decodes next, its prefill done.
        first_decoded: 1 if the first output token comes one iteration after the prefill ends, 0 if in the iteration that
            ends it.
        resident_limit: requests that may hold memory at a time, paused ones included.
    """

    iteration: int
    seed: int
    now_s: float
    token_budget: int
    batch_limit: int
    kv_capacity: int
    kv_free: int
    block_tokens: int
    hold_produced: int
    arrived: I8
    memory: I8
    request_id: I8
    request_class: I8
    prompt_tokens: I8
    prefilled: I8
    produced: I8
    reached: I8
    lost_at: I8
    left: I8
    resident: I8
    output_low: I8
    output_high: I8
    evictions: I8
    arrival_s: F8
    running: NDArray[np.bool_]
    decoding: NDArray[np.bool_]
    first_decoded: int = 0
    resident_limit: int = UNLIMITED

    @property
    def waited_s(self) -> F8:
        """float64[N], seconds from each request's arrival to `now_s`, also while it runs."""
        return self.now_s - self.arrival_s

    def held_after(self, request: int, tokens: int) -> int:
        """KV tokens of memory, in whole blocks, that the request at a position holds after it has run `tokens` more.

        If these are all of its `left`, it produces a token, which counts if `hold_produced` is 1.
        """
        produces = self.hold_produced if tokens == self.left[request] else 0
        return whole_blocks(int(self.prefilled[request]) + tokens + produces, self.block_tokens)


class RuleView(NamedTuple):
    """The view of a rule: fields of `EngineView`, with the facts of each request in its row of one table.

    `running` lists the rows of the R requests that hold memory, in order of admission, `waiting` those of the W waiting
    ones, in the policy's `order`. Arrays from `request_id` to `arrival_s` are read as ``view.left[row]``; `decoding` is 1 or
    0. A position in an answer is an index into `running` (0 to R - 1) or R plus an index into `waiting`. The policy's memory
    is in its `Batch`.
    """

    iteration: int
    seed: int
    now_s: float
    token_budget: int
    batch_limit: int
    kv_capacity: int
    kv_free: int
    block_tokens: int
    hold_produced: int
    first_decoded: int
    resident_limit: int
    running: ReadInts
    waiting: ReadInts
    request_id: ReadInts
    request_class: ReadInts
    prompt_tokens: ReadInts
    prefilled: ReadInts
    produced: ReadInts
    reached: ReadInts
    left: ReadInts
    resident: ReadInts
    output_low: ReadInts
    output_high: ReadInts
    evictions: ReadInts
    decoding: ReadInts
    lost_at: ReadInts
    arrival_s: ReadFloats
    arrived: ReadInts


#: Names of the rows of ``form_batch_into``'s argument `rows`, in order.
ROWS = RuleView._fields[13:26]


def whole_blocks(tokens: int, block_tokens: int) -> int:
    """Round a number of tokens up to whole blocks of `block_tokens`; the result is in tokens."""
    return -(-tokens // block_tokens) * block_tokens


@dataclass(frozen=True, slots=True, eq=False)
class BatchDecision:
    """A policy's answer: the tokens of each request that the next iteration runs, and the requests it evicts.

    Args:
        tokens: int64[N], by the view's positions, tokens each request runs: at most its `left`. A decoding request runs 1; 0
            pauses it with what it holds.
        evict: bool[N], running requests that lose their memory before the iteration starts; their `tokens` are 0.
        memory: int64[M], what the next view shows as `memory`.
        wake_s: if no request runs, the host's time, seconds, to ask again at the latest; inf = at the next arrival.
    """

    tokens: I8
    evict: NDArray[np.bool_]
    memory: I8
    wake_s: float = math.inf


#: What a policy plans with: ``bounds`` of the output lengths, or the ``truth``, which only a simulator can show.
Belief = Literal["bounds", "truth"]


@runtime_checkable
class SchedulingPolicy(Protocol):
    """A pure rule that forms the batches of one engine.

    Its batch runs 1 to `left` tokens of each request in it, at most `token_budget` tokens in all and at most `batch_limit`
    requests. After the batch at most `resident_limit` requests hold at most `kv_capacity` KV tokens. It evicts running
    requests only, gives these no tokens, and evicts only if another request runs.

    A policy may also have these attributes:

    * `order`: a `QueueOrder`, the order of the waiting requests; without it they are in order of arrival.
    * `memory_size`: number of int64 words that it keeps between decisions, all 0 before the first; without it 0.
    * `counts`: names of the first of these words, which a run's summary shows.
    * `believes`: ``bounds`` if it plans with bounds of output lengths, ``truth`` with true lengths, shown as bounds.
    """

    def form_batch(self, view: EngineView) -> BatchDecision:
        """Choose the tokens that each request runs in the next iteration, and the running requests to evict.

        The answer must depend on the view alone, and the view must stay unchanged.
        """
        ...


def broken_rule(view: EngineView, decision: BatchDecision, memory: int, may_evict: bool = True) -> str:
    """Check an answer against the promises of `SchedulingPolicy`: the first broken one as a sentence, or an empty text.

    Args:
        view, decision: the question, and the policy's answer.
        memory: number of words that the policy keeps, its `memory_size`.
        may_evict: whether the engine evicts at all; if not, every eviction breaks a promise.
    """
    if other := of_other_class("form_batch", decision, BatchDecision):
        return other
    tokens, evict = decision.tokens, decision.evict
    for name, kinds, kind in (("tokens", "iu", "int64"), ("evict", "b", "bool"), ("memory", "", "int64")):
        found = getattr(decision, name)
        if not isinstance(found, np.ndarray):
            return f"answers {name} as a {type(found).__name__}; expected an array"
        if found.size and found.dtype != kind and found.dtype.kind not in (*kinds,):
            return f"answers {name} of dtype {found.dtype}; expected {kind}"
    if tokens.shape != view.left.shape or evict.shape != view.left.shape:
        return f"answered for {tokens.shape} and {evict.shape} requests; it was shown {view.left.shape}"
    if decision.memory.size != memory:
        return f"keeps {decision.memory.size} words; it asked for {memory}"
    if not tokens.size:
        return ""
    for wrong, what in (
        ((tokens < 0) | (tokens > view.left), "was given more tokens than it has left, or fewer than none"),
        (evict & ~view.running, "was evicted and holds no memory"),
        (evict & (tokens > 0), "was evicted and given tokens"),
    ):
        if wrong.any():
            return f"request {view.request_id[int(np.argmax(wrong))]} {what}"
    if evict.any() and not (may_evict and tokens.any()):
        why = "no request was given tokens" if may_evict else "overflow=never allows no eviction; a-max and h-sf need none"
        return f"request {view.request_id[int(np.argmax(evict))]} was evicted, but {why}"
    if tokens.sum() > view.token_budget:
        return f"gave out {tokens.sum()} tokens of a budget of {view.token_budget}"
    if (tokens > 0).sum() > view.batch_limit:
        return f"batched {(tokens > 0).sum()} requests; the limit is {view.batch_limit}"
    residents = int((tokens[~view.running] > 0).sum() + (view.running & ~evict).sum())
    if residents > view.resident_limit:
        return f"lets {residents} requests hold memory; resident_limit is {view.resident_limit}"
    held = sum(view.held_after(int(k), int(tokens[k])) for k in np.flatnonzero(tokens))
    held += int(view.resident[(tokens == 0) & ~evict].sum())
    if held > view.kv_capacity:
        return f"would hold {held} KV tokens; the memory holds {view.kv_capacity}"
    return ""
