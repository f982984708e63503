"""What the compiled engine simulator reads and writes: one `Run`, made of named records and arrays.

`engine.state.prepared` makes one, the loop (`engine.loop`) changes it in place, and `engine.host` reads the results.
N is the number of requests. A request is named by its row in the trace.
"""

from __future__ import annotations

from typing import NamedTuple

from evenstep.compiled import Floats, Ints, IntTable, Record, Rows

# Why the loop came back. One rank of several also stops when it has formed a batch, run it, or has none to run.
RUNNING, DONE, TABLE_FULL, ASK, HOLDS_FOR_EVER, STOPPED, RAISED = range(7)
HAS_FORMED, HAS_RUN, HAS_NONE = range(7, 10)
# What the policy's answer broke; `Now.detail` says more.
BAD_POSITION, BAD_TOKENS, PICKED_TWICE, OVER_BUDGET, OVER_LIMIT = range(10, 15)
OVER_MEMORY, BAD_EVICTION, MAY_NOT_EVICT, BAD_ORDER, OVER_RESIDENTS = range(15, 20)
# What an evicted request keeps: its output, nothing, output and KV; or no request is evicted.
RECOMPUTE, RESTART, SWAP, NEVER = range(4)


class Fixed(Record):
    """The settings of a run, which do not change. Flags are 0 or 1; `UNLIMITED` stands for no limit.

    `engine.settings.Engine` has their meaning; `swap_*` and `drop_*` are its `swap_s` and `recompute_s`.
    """

    token_budget: int
    batch_limit: int
    resident_limit: int
    kv_capacity: int  # KV tokens, whole blocks
    block_tokens: int
    overflow: int  # RECOMPUTE .. NEVER
    first_decoded: int  # whether the first decode produces the first token, and not the end of the prefill
    hold_produced: int  # whether memory counts the token produced last
    keeps_evicted: int  # whether memory that is given up stays readable until others take it
    schedules_ahead: int  # whether a batch is formed when the one before it starts
    asks: int  # whether the host is asked for the bounds of requests that arrive
    is_rank: int  # whether this engine is one of several: it stops at each batch
    is_keyed: int  # whether the host has given the requests that come their places in the queue, by `Noted.key`
    seed: int
    swap_per_token_s: float
    swap_s: float  # each time a request is moved
    drop_per_square_s: float  # a squared KV token
    drop_s: float  # each time a request is dropped
    overhead_s: float  # of an iteration, besides its batch
    until_s: float


class Now(Record):
    """The progress of a run: clock, counts and the detail of a noted mistake. Counts are requests unless said otherwise."""

    iteration: int
    coming: int  # place in `Lists.coming` of the next request to arrive
    known: int  # entries of `Lists.coming`
    asked: int  # requests whose bounds the host has given
    running: int
    first: int  # place in `Lists.waiting` of the head of the queue
    waiting: int
    finished: int
    kv_free: int  # KV tokens of memory
    unused_blocks: int  # free memory that holds no KV to come back to
    kept_first: int  # the oldest entry of `Run.kept`
    kept_last: int  # one after the newest
    evictions: int
    taken_tokens: int  # prompt and produced tokens of the requests that left the queue, less those that came back
    wasted_tokens: int
    moved_tokens: int
    prefill_tokens: int
    decode_tokens: int
    gaps: int  # between consecutive tokens of a request
    rows: int  # iterations written to the table
    formed: int  # whether a batch waits for its seconds; only of a rank
    raised: int  # whether the policy's own `form_batch` raised an error
    detail: int  # the request, position or number that broke a rule
    now_s: float
    seen_s: float  # the start of the last iteration: what `schedules_ahead` has seen
    busy_s: float
    gap_sum_s: float
    gap_max_s: float
    beside_s: float  # seconds of moving memory for the batch that is formed
    step_s: float  # seconds of the batch that is formed; a rank is told
    wake_s: float  # when the policy of a rank without a batch wants to be asked again


class Shown(Record):
    """Fields of a request that policies see (`scheduling.view.EngineView`): columns `ID` .. `LOST_AT` of their table."""

    request_id: int
    request_class: int
    prompt_tokens: int
    prefilled: int
    produced: int
    reached: int
    left: int
    resident: int
    output_low: int
    output_high: int
    evictions: int
    decoding: int
    lost_at: int


class Hidden(Record):
    """Fields of a request that policies do not see and each of its batches reads. `output_tokens` is its true length."""

    output_tokens: int
    attained: int  # tokens run so far
    picked_at: int  # the last iteration that picked it, counted from 1
    last_token_s: float  # nan from its first iteration to its first token


class Noted(Record):
    """Fields of a request that policies do not see, and that change at single events of its life: 0 before the event.

    `first_iteration` and `last_iteration` ran it; it was `scheduled_s` at the start of the former. `*_s` are seconds on the
    run's clock. `wasted_tokens` are KV tokens that evictions lost.
    """

    first_iteration: int
    last_iteration: int
    wasted_tokens: int
    kept_at: int  # its place in `Run.kept`, counted from 1; 0 = nothing of it is kept
    key: float  # its place in the queue
    scheduled_s: float
    first_token_s: float
    finished_s: float


class Kept(Record):
    """Free blocks of memory that still hold KV of the evicted or finished request `row`: how many; 0 = the entry is dead."""

    row: int
    blocks: int


class Requests(NamedTuple):
    """The requests by row, with arrival times in seconds. `shown` has the rows of `table` as records, in the same memory."""

    table: IntTable  # [N, 13]
    shown: Rows[Shown]
    hidden: Rows[Hidden]
    noted: Rows[Noted]
    arrival_s: Floats


class Lists(NamedTuple):
    """Lists of request rows, int64[N] each; `Now` says which part of each is used."""

    coming: Ints  # in order of arrival, equal times in order of key and row
    running: Ints  # in order of admission
    waiting: Ints  # the queue, from `Now.first` on, in order of key
    finished: Ints  # in order of completion


class Policy(NamedTuple):
    """The arguments of a policy's kernel besides the requests (`scheduling.view`), and the order of its queue.

    The answer is in `picked`, row 0 positions and row 1 tokens, and `evicted`, positions; `counts` says how many of each.
    """

    order: Floats  # weights of `scheduling.order.QueueOrder`
    limits: Ints
    counts: Ints
    arrived: Ints
    memory: Ints
    parameters: Floats
    scratch_i: Ints
    scratch_f: Floats
    picked: IntTable  # [2, N], the answer; the loop puts rows in place of positions
    evicted: Ints


class Iterations(NamedTuple):
    """The records of iterations, an array a column as in `measure.engine_records.IterationTable`; empty = not kept.

    Row `Now.rows` is written next.
    """

    start_s: Floats
    seconds: Floats
    tokens: Ints
    prefill_tokens: Ints
    requests: Ints
    decodes: Ints
    kv_batch: Ints
    kv_held: Ints
    running: Ints
    waiting: Ints
    evicted: Ints
    produced: Ints


class Run(NamedTuple):
    """Everything the loop reads and writes, in place: settings, progress, requests, lists, and what the policy is given."""

    fixed: Fixed
    now: Now
    requests: Requests
    lists: Lists
    kept: Rows[Kept]  # oldest first, entries `Now.kept_first` .. `Now.kept_last` - 1
    policy: Policy
    batch: Floats  # the content of the batch under way, in the order of `cost.batch`
    law: Floats  # the numbers of the batch-time law
    gaps: Ints  # gaps between tokens by length, in the bins of `measure.quantiles.LogHistogram`
    table: Iterations
