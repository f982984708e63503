"""What the compiled network simulator reads and writes: one `Net`, the engines' state side by side.

E is the number of engines, C the number of calls, T of tasks. A call is named by its row. Once it is sent, it has a place in
the table of requests that all engines share; engines know it by that place. Everything else of an engine is a window of the
arrays here.
"""

from __future__ import annotations

from typing import NamedTuple

from evenstep.compiled import Floats, Ints, IntTable, ReadFloats, ReadInts, Record, Rows, Table
from evenstep.sim.engine.model import Fixed, Iterations, Kept, Now, Requests

#: What the loop returns besides the codes of `sim.engine.model`: a routing policy gave no engine of its group, or raised; an
#: engine's lists cannot take a further call.
BAD_ROUTE, ROUTE_RAISED, LISTS_FULL = 30, 31, 32
#: How the calls that wait at an engine are ordered.
FCFS, OLDEST_TASK, LEAST_ATTAINED, STATIC = range(4)


class Clock(Record):
    """The progress of a run: time, the island that runs, the heap's size, the noted mistake. Times are seconds."""

    until_s: float
    then_s: float  # the earliest event at or after `until_s`, of all islands so far
    island: int  # the one that runs
    first: int  # its first engine
    end: int  # one after its last engine
    tree: int  # the island's part of `Net.due_s`
    leaves: int
    coming: int  # place in `Net.roots` of the next task's first call
    end_root: int  # one after the island's last first call
    heap: int  # entries of the heap of released calls
    most: int  # the most calls that one engine was sent
    next_block: int  # the first place in the table of requests that no engine has
    order: int  # FCFS .. STATIC
    seed: int
    engine: int  # the engine or the group whose policy is asked
    group: int
    low: int  # the first and the last engine that the next event may be about; none if low > high
    high: int
    detail: int  # the call or number that broke a rule
    raised: int  # whether a routing policy raised an error
    sample_s: float  # the next sampling time, and the time between two
    every_s: float
    samples: int  # taken so far


class Island(Record):
    """A run of consecutive groups of engines that share no task with other groups.

    It ends where the next one begins; an entry after the last island says where that ends. Its part of `Net.due_s` is a
    binary tree of minima: entry 1 is the root, 2 i and 2 i + 1 are the children of i, and the leaves stand for its engines.
    """

    first_engine: int
    first_root: int  # place in `Net.roots`
    tree: int  # entries of `Net.due_s` before its part
    leaves: int  # a power of two


class Site(Record):
    """One engine of the network: its counts, and where its part of the flat arrays begins: it ends where the next begins."""

    group: int
    policy: int  # place of its scheduling policy's kernel
    formed: int  # whether a batch is under way
    finished: int  # calls that were done when the last batch ended
    ran: int  # tokens that had run by then
    next_place: int  # place in the table of requests for its next call; at a multiple of `BLOCK` it takes a new block
    work: int  # tokens of the calls that were sent here, whether run or not
    prompt_tokens: int  # of the calls that were sent here
    kept: int  # `Net.kept` entries before this engine's
    memory: int
    parameters: int
    scratch_i: int
    scratch_f: int
    law: int


class Group(Record):
    """Engines `first` to `first + count - 1`, among which a routing policy divides calls; a single engine has no policy."""

    first: int  # its first engine
    count: int  # engines
    policy: int  # place of its routing policy's kernel
    capacity: float  # KV tokens of an engine; inf = no limit
    decisions: int  # of the policy
    workers: int  # where its part of `Routing`'s tables begins, and of the flat arrays
    memory: int
    parameters: int
    scratch_i: int
    scratch_f: int


class Call(Record):
    """One call of a task, as engines and policies see it."""

    request_id: int
    request_class: int
    prompt_tokens: int
    output_low: int
    output_high: int
    output_tokens: int
    group: int
    work: int  # tokens that it runs
    affinity: int  # its key for routing policies


class Nodes(NamedTuple):
    """The graphs of the tasks: for each of the C calls its task, and the calls that depend on it. [C] unless said."""

    task: ReadInts
    rank: ReadInts  # its priority at its engines, 0 first
    key: ReadFloats  # of a static order
    delay_s: ReadFloats  # seconds between its parents' end and its release
    pending: Ints  # parents that are not done
    first_child: ReadInts  # [C + 1], where its children begin in `child`; they end where the next one's begin
    child: ReadInts  # one for each dependency: the call that waits, in order of the call that it waits for


class Flat(NamedTuple):
    """Memory, parameters and working space of policies, all engines' or groups' in a row; `Site` or `Group` says where."""

    memory: Ints
    parameters: Floats
    scratch_i: Ints
    scratch_f: Floats


class Lists(NamedTuple):
    """One row for each engine, with the meaning of `sim.engine.model.Lists`: int64[E, W].

    W is the number of calls that an engine can be sent before the host makes them wider. `evicted` [1, W] and `picked`
    [2, W] hold the answer of the policy that was asked last: its batch has run before the next one is asked.
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
    """The arguments of routing policies, besides the flat arrays of groups (`routing.view`).

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
    """At S regular times, for each of E engines: its calls that are not done, and the tokens it still has to run. [S, E]."""

    requests: IntTable
    tokens: IntTable


class Net(NamedTuple):
    """Everything the loop reads and writes, in place. `heap_s` and `heap_row` are one heap, the first call at entry 0."""

    clock: Clock
    islands: Rows[Island]  # one more than there are
    sites: Rows[Site]
    groups: Rows[Group]
    calls: Rows[Call]
    nodes: Nodes
    roots: Ints  # first calls by island and time of release
    root_s: Floats
    heap_s: Floats  # a binary heap of released calls by time and row
    heap_row: Ints
    attained: Ints  # [T], tokens of a task's calls that are done; kept where an end of a call changes anything
    due_s: Floats  # when engines' batches end, or policies want to be asked again, with their minima (`Island`)
    fixed: Rows[Fixed]
    now: Rows[Now]
    requests: Requests  # those that are sent, each engine's near each other: its data then stay in the processor's caches
    call_of: Ints  # the row of each of them
    lists: Lists
    kept: Rows[Kept]
    small: Small
    laws: Floats
    flat: Flat
    routing: Routing
    route_flat: Flat
    table: Iterations  # empty: iterations are not recorded
    samples: Samples
