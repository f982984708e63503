"""The state of the compiled engine simulator: one `Run`, made of named records and arrays.

`engine.state.prepared` makes one, the loop (`engine.loop`) changes it in place, and `engine.host` reads the results. N is
the number of requests. A request is named by its row in the trace.
"""

from __future__ import annotations

from typing import NamedTuple

from evenstep.compiled import Floats, Ints, IntTable, Record, Rows

# Why the loop returned. One rank of several also returns when it has formed a batch, run it, or has no batch.
RUNNING, DONE, TABLE_FULL, ASK, HOLDS_FOR_EVER, STOPPED, RAISED = range(7)
HAS_FORMED, HAS_RUN, HAS_NONE = range(7, 10)
# The rule that the policy's answer broke; `Now.detail` has the number at fault.
BAD_POSITION, BAD_TOKENS, PICKED_TWICE, OVER_BUDGET, OVER_LIMIT = range(10, 15)
OVER_MEMORY, BAD_EVICTION, MAY_NOT_EVICT, BAD_ORDER, OVER_RESIDENTS = range(15, 20)
# An evicted request keeps its output, nothing, or output and KV; `NEVER`: no request is evicted.
RECOMPUTE, RESTART, SWAP, NEVER = range(4)


class Fixed(Record):
    """The settings of a run, which do not change. Flags are 0 or 1; `UNLIMITED` stands for no limit.

    `engine.settings.Engine` explains them; `swap_*` and `drop_*` are its `swap_s` and `recompute_s`. `first_decoded` is 1 if
    the first decode produces the first token, `asks` if the host sets the bounds of requests that arrive. `is_rank` is 1 if
    the engine is one rank of several and stops at each batch, `is_keyed` if the host sets `Noted.key`.
    """

    token_budget: int
    batch_limit: int
    resident_limit: int
    kv_capacity: int  # KV tokens, whole blocks
    block_tokens: int
    overflow: int  # RECOMPUTE .. NEVER
    first_decoded: int
    hold_produced: int  # whether memory counts the token produced last
    keeps_evicted: int  # whether memory that is given up stays readable until others take it
    schedules_ahead: int  # whether a batch is formed when the one before it starts
    asks: int
    is_rank: int
    is_keyed: int
    seed: int
    swap_per_token_s: float
    swap_s: float  # each time a request is moved
    drop_per_square_s: float  # a squared KV token
    drop_s: float  # each time a request is dropped
    overhead_s: float  # of an iteration, besides its batch
    until_s: float


class Now(Record):
    """The progress of a run: clock, counts, and the detail of a policy's mistake.

    `known`, `asked`, `running`, `waiting`, `finished` and `evictions` count requests. `coming` and `first` are the index of
    the next request in `Lists.coming` and `Lists.waiting`; `kept_first` and `kept_last` bound the entries of `Run.kept` in
    use. `kv_free` and `*_tokens` are tokens, `*_s` seconds; `gaps` are those between consecutive tokens of a request.
    """

    iteration: int
    coming: int
    known: int  # entries of `Lists.coming`
    asked: int  # requests whose bounds the host has given
    running: int
    first: int
    waiting: int
    finished: int
    kv_free: int  # KV tokens of memory
    unused_blocks: int  # free blocks that hold no kept KV
    kept_first: int  # the oldest entry
    kept_last: int  # one after the newest
    evictions: int
    taken_tokens: int  # prompt and produced tokens of the requests that left the queue, less those that came back
    wasted_tokens: int
    moved_tokens: int
    prefill_tokens: int
    decode_tokens: int
    gaps: int
    rows: int  # iterations written to the table
    formed: int  # whether a batch waits for its seconds; only of a rank
    raised: int  # whether the policy's own `form_batch` raised an error
    detail: int  # the request, position or number that broke a rule
    now_s: float
    seen_s: float  # the start of the last iteration: with `schedules_ahead`, later arrivals are not seen
    busy_s: float
    gap_sum_s: float
    gap_max_s: float
    beside_s: float  # seconds of moving memory for the batch that is formed
    step_s: float  # seconds of the formed batch, set by the host of a rank
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
    """Fields of a request that policies do not see and each of its batches uses. `output_tokens` is its true length.

    `attained` are the tokens run so far, and `picked_at` is the last iteration that picked it, from 1. `last_token_s` is the
    time of its last token: 0 before its first iteration, then nan until its first token.
    """

    output_tokens: int
    attained: int
    picked_at: int
    last_token_s: float


class Noted(Record):
    """Fields of a request that policies do not see, set at single events of its life; 0 before the event.

    `first_iteration` ran its first tokens and started at `scheduled_s`; `last_iteration` ran its last. `*_s` are seconds on
    the run's clock. `wasted_tokens` are KV tokens that evictions lost. `key` is its sort key in the queue. `kept_at` - 1 is
    the index of its entry in `Run.kept`; 0 = it has none.
    """

    first_iteration: int
    last_iteration: int
    wasted_tokens: int
    kept_at: int
    key: float
    scheduled_s: float
    first_token_s: float
    finished_s: float


class Kept(Record):
    """An entry of kept memory: `blocks` free blocks still hold KV of the evicted or finished request `row`; 0 = no entry."""

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
    """Lists of request rows, int64[N] each. `Now.known`, `running`, `waiting` and `finished` count their entries in use."""

    coming: Ints  # in order of arrival, equal times in order of key and row
    running: Ints  # in order of admission
    waiting: Ints  # the queue, from `Now.first` on, in order of key
    finished: Ints  # in order of completion


class Policy(NamedTuple):
    """The arguments of a policy's kernel besides the requests (see `scheduling.view`), and the order of its queue.

    The kernel writes its answer to `picked` (row 0 positions, row 1 tokens) and `evicted`; `counts` has how many of each.
    The loop then replaces the positions in `picked` by rows (`queue.resolve`).
    """

    order: Floats  # weights of `scheduling.order.QueueOrder`
    limits: Ints
    counts: Ints
    arrived: Ints
    memory: Ints
    parameters: Floats
    scratch_i: Ints
    scratch_f: Floats
    picked: IntTable  # [2, N]
    evicted: Ints


class Iterations(NamedTuple):
    """The table of iterations, one array per column of `measure.engine_records.IterationTable`; empty arrays = not kept."""

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
    """Everything the loop reads and writes, in place: settings, progress, requests, lists, and the policy's arguments."""

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
