"""The state of the compiled cluster simulator: one `Run`, made of named records and arrays.

`cluster.state.prepared` makes one, the loops (`cluster.loop`, `cluster.short_loop`) change it in place, and `cluster.host`
reads the results. G is the number of workers, B the most slots of a worker, S = G * B, H the horizon.
"""

from __future__ import annotations

from typing import NamedTuple

from evenstep.compiled import Floats, Ints, IntTable, Record, Rows, Table

# Phases.
NEXT, COMPLETE, REVEAL, DECIDE, START = range(5)
# Arrivals.
SATURATED, TIMED, USERS, SESSIONS = range(4)
# Why the loop returned.
RUNNING, DONE, FLUSH, GROW, PREDICT, STUCK, BROKEN = range(7)
# How loads grow: by the same amount a step, by a common sequence, or by each request's own profile.
LINEAR, SEQUENCE, PROFILES = range(3)
# Forms of a step-time law: one line through zero of the load, lines of the load, lines of load and longest request.
ONE_LINE, LINES, LINES_OF_LONGEST = range(3)
# Knowledge of the coming steps: nothing, the truth, when a request leaves, or the chance that it is still there.
NO_PREDICTION, ORACLE, DEPARTURES, EXPECTED = range(4)
# The rule that a decision broke; `RAISED`: the policy's own `route` raised an error.
UNKNOWN_WORKER, OVER_SLOTS, OVER_KV, RAISED = 1, 2, 3, 4
#: A step that never comes.
NEVER = 1 << 60


class Fixed(Record):
    """The settings of a run, which do not change. Flags are 0 or 1. A mask is a length, a power of two, less one.

    Most are those of `simulation.Cluster` and `state.Options`. `scale` are load units in a token, `unit` tokens in a load
    unit; loads are summed in load units, which are integers. A request gains `delta` load units a step. `slope` are seconds
    a token. `ring_mask` is of the calendars by step, `window_mask` of the windows of departures.
    """

    requests: int
    workers: int
    groups: int  # barrier groups
    slots_max: int  # B
    horizon: int
    seed: int
    arrivals: int  # SATURATED .. SESSIONS
    pool_target: int
    instant: int  # whether a decision is about one request only
    depth: int  # requests a worker may be sent beyond its slots
    may_hold: int  # whether the policy may leave a worker idle
    kv_limited: int
    scale: int
    delta: int
    tokens_per_step: int
    profile_kind: int  # LINEAR .. PROFILES
    ring_mask: int
    window_mask: int
    prediction: int  # NO_PREDICTION .. EXPECTED
    refresh_every: int  # produced tokens after which a prediction is old
    law_kind: int  # ONE_LINE .. LINES_OF_LONGEST
    keep: int  # whether every request's record is kept, at its own row
    record_decisions: int
    unit: float
    slope: float  # of the first worker
    longest_share: float
    prefill_base_s: float
    prefill_per_token_s: float
    kv_tokens: float
    kv_reserve: float
    think_s: float
    idle_w: float
    span_w: float  # power at full load less idle power
    full_power_s: float  # longest step at full power that makes one token


class Now(Record):
    """The progress of a run: clock, phase, counts and the policy's mistake (`error_*`).

    Counts are requests unless their names say otherwise; the `*_rows` and `samples` count rows written to tables of records.
    `cursor` is the next row of the trace, `first` the oldest waiting request's place in the pool. `coming`, `carried` and
    `due` count entries of those lists; `queue_free` and `spare_slot` are the heads of lists of free nodes and slots.
    """

    phase: int
    cursor: int
    first: int
    waiting: int
    free_total: int
    completed: int
    running_all: int
    queued_all: int
    decisions: int
    steps: int
    coming: int
    coming_sequence: int  # key of the next entry of `coming`, where users issue requests
    carried: int
    queue_free: int
    outages_left: int
    sessions_next: int
    admitted_now: int
    waits: int
    active_steps: int  # running requests, summed over steps
    output_tokens: int
    restarts: int
    overloaded: int  # steps
    overloaded_now: int
    held: int  # decisions after which an idle worker was sent a request that the policy held
    request_rows: int
    step_rows: int
    decision_rows: int
    samples: int
    stride: int  # steps from one sample to the next, 0 = no samples
    due: int
    spare_slot: int  # of the short loop
    error_kind: int  # UNKNOWN_WORKER .. RAISED, 0 = no error
    error_worker: int
    now_s: float
    mean_wait_s: float
    wait_sum_s: float
    load_steps: float  # KV tokens, summed over workers and steps
    bound: float  # the policy's lower bound with its last decision


class Worker(Record):
    """Fields of a worker that policies do not see: `up` is 1, or 0 while it is lost.

    `queue_head` and `queue_tail` are indices in `Run.queues`, -1 = empty. `longest_slot` is the slot of its largest request;
    -1 = the next step has to look for it.
    """

    slots: int
    up: int
    queue_head: int
    queue_tail: int
    longest_slot: int


class Group(Record):
    """A barrier group: `workers` workers from `first` on, and its step under way.

    `step` counts the steps done so far. `busy` is 1 inside a step, which ends at `end_s`. `boundary` is 1 if its step has
    just ended, 2 once its requests were completed. `admitted` counts requests since its last step began.
    """

    step: int
    busy: int
    boundary: int
    grown: int  # 1: its loads have grown by the step that ended
    running: int
    first: int
    workers: int
    queued: int
    admitted: int
    end_s: float
    overhead_s: float


class Slot(Record):
    """A slot of a worker, and the request that runs in it, `row` of the trace (-1 = free); steps are those of its group.

    It started at step `admit` with `units` load units and `done` earlier decode steps, and its last step is `finish`.
    `follower` is the next slot whose request completes then, -1 = none. `admitted_s` and `first_token_s` are only set for a
    request that restarted; -1 = not known.
    """

    row: int
    worker: int
    follower: int
    finish: int
    admit: int
    units: int
    done: int
    restarts: int
    visible_s: float
    admitted_s: float
    first_token_s: float


class Look(Record):
    """When the request in a slot is expected to be gone: at step `leave` of its group, predicted at step `predicted`."""

    leave: int  # `NEVER` = not inside the horizon
    predicted: int  # -1 = not yet
    in_window: int  # 1 while the worker's window of departures (`Ahead.leaving`) counts it


class Coming(Record):
    """A request to come, in a heap by (time, key): `key` is its row, or a running number where users issue requests."""

    time_s: float
    key: int


class Carried(Record):
    """Facts of request `row` that are kept while it is back in the pool. Times are of its first run, -1 = it ran no step."""

    row: int
    done: int  # decode steps
    restarts: int
    admitted_s: float
    first_token_s: float


class Node(Record):
    """A place in a worker's queue with request `row`, visible since `since_s`; `next` is the following node, -1 = none."""

    row: int
    next: int  # free nodes are linked from `Now.queue_free`
    units: int  # load units of the request
    since_s: float


class Loss(Record):
    """A worker is lost (`back` 0) or comes back (1) when its group has done `step` steps; `over`: 1 once that is applied."""

    step: int
    worker: int
    back: int
    over: int


class Due(Record):
    """A prediction that the host is asked for: the loop writes `slot`, an index in `Slots.rows`, the host `steps_left`.

    `steps_left` is decode steps; negative = not inside the horizon. With curves the host writes row `slot` of `Ahead.curves`
    instead. The host may put the entries into another order.
    """

    slot: int
    steps_left: float


class Completed(Record):
    """The record of a completed request: its last worker, its first and last step there, and times in seconds."""

    worker: int
    admitted_step: int  # a step of the worker's group
    finished_step: int
    restarts: int
    visible_s: float
    admitted_s: float  # this and `first_token_s`, the end of its first step, of its first run
    first_token_s: float
    finished_s: float


class Decided(Record):
    """The record of a decision: requests and free slots before it, requests it sent, and the policy's lower bound or nan."""

    decision: int
    waiting: int
    free_slots: int
    admitted: int
    now_s: float
    bound: float


class Sampled(Record):
    """A step of a group, with start and length in seconds, at which every worker's load was recorded (`Samples`)."""

    step: int
    group: int
    start_s: float
    duration_s: float


class Fleet(NamedTuple):
    """The workers and their groups. Policies receive the two tables (explained in `routing.view.RoutingView`).

    `group` to `running` are the rows of `workers_i`, `load` to `seconds_per_token` those of `workers_f`: the same memory.
    """

    workers_i: IntTable
    workers_f: Table
    group: Ints  # [G], as all up to `units`
    queued: Ints
    free_slots: Ints
    running: Ints
    load: Floats  # KV tokens
    queued_load: Floats
    kv_free: Floats
    seconds_per_token: Floats
    units: Ints  # the load in load units
    workers: Rows[Worker]
    groups: Rows[Group]
    outages: Rows[Loss]  # in order of their steps


class Slots(NamedTuple):
    """Slots, the calendar of completions, and when each step began and ended; worker g has slots g * B .. g * B + B - 1.

    `calendar` has the first slot whose request completes at a step, -1 = none. `calendar`, `began_s` and `ended_s` are
    [groups, ring]; a column is a step number modulo the ring's length (`Fixed.ring_mask`).
    """

    rows: Rows[Slot]
    free: IntTable  # [G, B], stacks of free slots; ``free[g, slots - running - 1]`` is taken next
    calendar: IntTable
    began_s: Table
    ended_s: Table


class Ahead(NamedTuple):
    """The loop's knowledge of coming steps: predictions, curves, windows of departures, projections.

    `leaving`, [G, window], counts requests expected to leave before a step, modulo the window's length; `leaving_units` is
    their load then.
    """

    look: Rows[Look]  # [S] or empty
    leaving: IntTable
    leaving_units: IntTable
    due: Rows[Due]
    curves: Table  # [S, K], the chance of being there still, by steps since the prediction
    projections: Table  # [G, H+1], KV tokens, as `growth`; see `RoutingView`
    growth: Floats  # [H+1]


class Pool(NamedTuple):
    """The waiting pool, oldest first: `Now.waiting` requests from place `Now.first` on.

    `id`, `request_class` and `key` are the rows of `waiting_i`, `load`, `since_s` and `steps` those of `waiting_f`. `worker`
    is the policy's answer: entry i is about the request at place `Now.first` + i; -1 = hold.
    """

    waiting_i: IntTable
    waiting_f: Table
    id: Ints
    request_class: Ints
    key: Ints
    load: Floats
    since_s: Floats
    steps: Floats
    worker: Ints


class Policy(NamedTuple):
    """The arguments of a policy's kernel besides the view, and its working space."""

    cached: Table  # prompt tokens
    memory: Ints
    parameters: Floats  # the policy's fields (`compiled.parameters`)
    scratch_i: Ints
    scratch_f: Floats


class Requests(NamedTuple):
    """The columns of the trace that the loop needs, by row."""

    prompt: Ints  # tokens, as `output`
    output: Ints
    arrival_s: Floats  # empty unless arrivals are timed
    request_class: Ints  # this and `key` are empty where requests have neither
    key: Ints
    offsets: Ints  # with `PROFILES`, where the profile of each row begins
    profile: Ints  # load units: gains by decode steps done (`SEQUENCE`), or loads of all rows; empty with `LINEAR`


class Sessions(NamedTuple):
    """Sessions that are replayed. All arrays are empty unless arrivals are `SESSIONS`.

    ``children[child_offsets[r] : child_offsets[r + 1]]`` are the rows that follow row r, and ``roots[root_offsets[s] :
    root_offsets[s + 1]]`` those of session s that follow no other. `left` counts requests of each session not yet ended.
    `think_s` are seconds from the end of the row that a row follows, or from its session's start.
    """

    child_offsets: Ints
    children: Ints
    session: Ints  # of each row
    left: Ints
    root_offsets: Ints
    roots: Ints
    think_s: Floats


class Law(NamedTuple):
    """The numbers from which seconds and joules of a step are computed."""

    knots: Floats  # KV tokens
    seconds: Table  # [1 or G, knots], of all workers or of each at the loads `knots`; linear between them
    local_s: Floats  # [G], of the step that was started last
    made: Ints  # [G], output tokens of the step that was started last, where a request may make more than one
    token_power: Floats  # [N+1], share of the span of power that so many tokens take in a step of one second; more as N
    roots: Floats  # see `roots`


class StepRows(NamedTuple):
    """The records of steps in order of start, `Now.step_rows` of them; for the columns see `measure.records.StepTable`."""

    group: Ints
    step: Ints
    running: Ints
    running_all: Ints
    admitted: Ints
    tokens: Ints
    start_s: Floats
    duration_s: Floats
    envelope: Floats
    load_sum: Floats
    load_min: Floats
    local_max_s: Floats
    local_sum_s: Floats
    energy_busy_idle_j: Floats
    energy_step_average_j: Floats


class Samples(NamedTuple):
    """Loads of all workers, in KV tokens, at every `Now.stride`-th step of a group: `Now.samples` rows are written."""

    rows: Rows[Sampled]  # which step each sample is of
    load: Table  # [samples, G]
    running: IntTable  # requests
    longest: Table  # load of each worker's longest request; empty where the law does not ask for it


class Records(NamedTuple):
    """Buffers of records, emptied by the host when they are full; counts in `Now` give the rows written."""

    done: Rows[Completed]  # at their own rows of the trace with `Fixed.keep`, else in order of completion
    ended: Ints  # requests in order of completion
    steps: StepRows
    decisions: Rows[Decided]


class Run(NamedTuple):
    """Everything the loop reads and writes."""

    fixed: Fixed
    now: Now
    fleet: Fleet
    slots: Slots
    coming: Rows[Coming]  # a heap
    carried: Rows[Carried]  # a list
    queues: Rows[Node]  # the nodes of all queues
    ahead: Ahead
    pool: Pool
    policy: Policy
    requests: Requests
    sessions: Sessions
    law: Law
    records: Records
    samples: Samples


# The short loop (`cluster.short_loop`) has two words a slot and two a request.
#: Bits of a worker or slot in a word that holds another number above them; as a slot: no slot.
SHIFT = 24
NO_SLOT = (1 << SHIFT) - 1


class ShortSlot(Record):
    """A slot of the short loop, in a linked list: that of slots whose requests complete at one step, or of spare slots.

    `link` is ``worker << SHIFT | next slot``, with `NO_SLOT` at the end. `units` are load units its request leaves with.
    """

    link: int
    units: int


class Admitted(Record):
    """The short loop's record of an admission: `place` is ``step << SHIFT | worker``. Other times follow from the steps."""

    place: int
    visible_s: float


class ShortRun(NamedTuple):
    """Everything the short loop reads and writes. Fields named as in `Run` mean the same.

    `done` has admitted requests: at their own rows with `Fixed.keep`, else in order of admission; `ended` has their rows.
    """

    fixed: Fixed
    now: Now
    fleet: Fleet
    slots: Rows[ShortSlot]
    calendar: Ints  # [ring], the first slot of the chain that completes at a step, or `NO_SLOT`
    ahead: Ahead
    pool: Pool
    policy: Policy
    requests: Requests
    law: Law
    done: Rows[Admitted]
    ended: Ints
    steps: StepRows  # the columns that `short_state.step_rows` can compute are not written
    samples: Samples
