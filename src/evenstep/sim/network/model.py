"""The state of the compiled network simulator: one `Net`, which holds the states of all engines.

E is the number of engines, C of calls, T of tasks. A call is named by its row. A call that was sent also has a place in the
table of requests that all engines share, and engines know it by that place.
"""

from __future__ import annotations

from typing import NamedTuple

from evenstep.compiled import Floats, Ints, IntTable, ReadFloats, ReadInts, Record, Rows, Table
from evenstep.sim.cluster.model import Coming
from evenstep.sim.engine.model import Fixed, Iterations, Kept, Now, Requests

#: Codes that the loop returns besides those of `sim.engine.model`: a routing policy gave no engine of its group, or raised;
#: an engine's lists cannot take a further call.
BAD_ROUTE, ROUTE_RAISED, LISTS_FULL = 30, 31, 32
#: Orders of the calls that wait at an engine.
FCFS, OLDEST_TASK, LEAST_ATTAINED, STATIC = range(4)


class Clock(Record):
    """The progress of a run: time, the island that runs, the heap's size, a policy's mistake. Times are seconds.

    `first` to `end` - 1 are the engines of the island that runs, and `tree` and `leaves` its words of `Island`. `coming` is
    the index in `Net.roots` of its next first call, `end_root` one after its last. `engine` or `group` is the one whose
    policy is asked. `low` and `high` are the first and the last engine with an event now; none if `low` > `high`.
    """

    until_s: float
    then_s: float  # the earliest event at or after `until_s`, of all islands so far
    island: int
    first: int
    end: int
    tree: int
    leaves: int
    coming: int
    end_root: int
    heap: int  # entries of the heap of released calls
    most: int  # the most calls that one engine was sent
    next_block: int  # the first place in the table of requests that no engine has
    order: int  # FCFS .. STATIC
    seed: int
    engine: int
    group: int
    low: int
    high: int
    detail: int  # the call or number that broke a rule
    raised: int  # whether a routing policy raised an error
    sample_s: float  # the next sampling time, and the time between two
    every_s: float
    samples: int  # taken so far


class Island(Record):
    """Consecutive groups of engines that share no task with other groups. It ends where the next one begins.

    A last entry marks the end of the last island. An island's part of `Net.due_s` is a binary tree of minima: entry 1 is the
    root, 2 i and 2 i + 1 are the children of i, and the leaves stand for its engines.
    """

    first_engine: int
    first_root: int  # place in `Net.roots`
    tree: int  # entries of `Net.due_s` before its part
    leaves: int  # a power of two


class Site(Record):
    """One engine: its counts, and where its parts of the flat arrays begin (`kept` to `law`), up to the next site's.

    `formed` is 1 while a batch is under way. `finished` calls and `ran` tokens were done when the last batch ended. `work`
    and `prompt_tokens` are the tokens of all calls sent here, run or not. `policy` is the index of its policy's kernel, and
    `next_place` the index of its next call in `Net.requests`.
    """

    group: int
    policy: int
    formed: int
    finished: int
    ran: int
    next_place: int  # at a multiple of `BLOCK` it takes a new block
    work: int
    prompt_tokens: int
    kept: int  # `Net.kept` entries before this engine's
    memory: int
    parameters: int
    scratch_i: int
    scratch_f: int
    law: int


class Group(Record):
    """Engines `first` to `first + count - 1`, among which a routing policy divides calls; a single engine has no policy.

    `policy` is the index of the policy's kernel, and `capacity` are the KV tokens of an engine; inf = no limit.
    `reads_usage` is 1 if the policy is vLLM's, which goes by the share of memory in use. `workers` to `scratch_f` are where
    its parts of `Routing`'s tables and of `Net.route_flat` begin.
    """

    first: int
    count: int
    policy: int
    capacity: float
    reads_usage: int
    decisions: int  # of the policy
    workers: int
    memory: int
    parameters: int
    scratch_i: int
    scratch_f: int


class Call(Record):
    """One call of a task, as engines and policies see it: `work` tokens run; `affinity` is its key for routing policies."""

    request_id: int
    request_class: int
    prompt_tokens: int
    output_low: int
    output_high: int
    output_tokens: int
    group: int
    work: int
    affinity: int


class Nodes(NamedTuple):
    """The graphs of the tasks: for each of the C calls its task, its priority (`rank`, 0 first) and its dependencies.

    `pending` counts its parents that are not done. The calls that wait for call c are ``child[first_child[c] :
    first_child[c + 1]]``. `key` is its key in a static order, `delay_s` seconds from its last parent's end to its release.
    """

    task: ReadInts
    rank: ReadInts
    key: ReadFloats
    delay_s: ReadFloats
    pending: Ints
    first_child: ReadInts  # [C + 1]
    child: ReadInts  # [dependencies]


class Flat(NamedTuple):
    """Memory, parameters and working space of all policies, one after the other; `Site` or `Group` has where each begins."""

    memory: Ints
    parameters: Floats
    scratch_i: Ints
    scratch_f: Floats


class Lists(NamedTuple):
    """One row for each engine, with the meaning of `sim.engine.model.Lists`: int64[E, W].

    W is the number of calls that an engine can take before the host widens the lists. `evicted` [1, W] and `picked` [2, W]
    hold the answer of the policy that was asked last: its batch has run before the next policy is asked.
    """

    coming: IntTable
    running: IntTable
    waiting: IntTable
    finished: IntTable
    evicted: IntTable
    picked: IntTable


class Small(NamedTuple):
    """Short rows, one for each engine: [E, *], with the meaning of the arrays of `sim.engine.model.Policy` and `Run`."""

    order: Table
    limits: IntTable
    counts: IntTable
    arrived: IntTable
    batch: Table
    gaps: IntTable


class Routing(NamedTuple):
    """The arguments of routing policies (`routing.view`), besides the flat arrays of groups.

    `workers_i` and `workers_f` hold a table [4, engines] for each group, flattened, one after the other.
    """

    workers_i: Ints
    workers_f: Floats
    waiting_i: IntTable  # [3, 1]
    waiting_f: Table
    projections: Table  # [engines of the largest group, 0]
    nothing: Table  # [0, 0]
    growth: Floats
    worker: Ints


class Samples(NamedTuple):
    """At S regular times, for each of E engines: its calls sent and not done, and the tokens it still has to run. [S, E]."""

    requests: IntTable
    tokens: IntTable


class Net(NamedTuple):
    """Everything the loop reads and writes, in place.

    `roots` are the calls without parents, released at `root_s`. `heap` is a binary heap of released calls, the first at
    entry 0. `call_of` has the row of the call at each place of `requests`.
    """

    clock: Clock
    islands: Rows[Island]  # one more than there are
    sites: Rows[Site]
    groups: Rows[Group]
    calls: Rows[Call]
    nodes: Nodes
    roots: Ints  # by island and time of release
    root_s: Floats
    heap: Rows[Coming]  # by time and row
    attained: Ints  # [T], tokens of a task's finished calls; 0 where neither order nor graph depends on them
    due_s: Floats  # when engines' batches end, or policies want to be asked again, with their minima (`Island`)
    fixed: Rows[Fixed]
    now: Rows[Now]
    requests: Requests  # the calls that were sent, those of an engine near each other in memory
    call_of: Ints
    lists: Lists
    kept: Rows[Kept]
    small: Small
    laws: Floats
    flat: Flat
    routing: Routing
    route_flat: Flat
    table: Iterations  # empty: iterations are not recorded
    samples: Samples
