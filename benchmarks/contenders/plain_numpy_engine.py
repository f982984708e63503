"""One batching engine in plain NumPy, iteration by iteration: the yardstick of the engine simulator.

Same model and same answers as `evenstep.sim.engine.simulation.simulate_engine` with its defaults (chunked prefill, KV
memory in blocks, recompute, a first token at the end of the prefill, time by the tokens of a batch), per-request and
per-iteration records; the histogram of gaps between tokens is left out. Two rules: `sarathi`, as ours, and `vidur`, as
Vidur publishes its Sarathi scheduler, which keeps a prompt's memory from admission on and leaves a hundredth of all
free. Both first form the batch for all running requests at once and go request by request only where memory does not
suffice.
"""

from __future__ import annotations

import heapq

import numpy as np


class Engine:
    """Requests by row, in order of arrival; `running` in order of admission; the queue is `evicted`, then what comes."""

    def __init__(self, prompt, output, budget, limit, kv_tokens, block):
        n = prompt.size
        self.prompt, self.output = prompt, output
        self.budget, self.limit, self.block = budget, limit, block
        self.blocks = self.free = kv_tokens // block
        self.computed, self.produced, self.held = (np.zeros(n, np.int64) for _ in range(3))  # tokens, tokens, blocks
        self.evictions, self.wasted = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.running = np.zeros(0, np.int64)
        self.evicted, self.next, self.arrived, self.gone = [], 0, 0, 0

    def left(self, rows):
        """Tokens each could run now: the rest of its prefill, or 1."""
        return self.prompt[rows] + self.produced[rows] - self.computed[rows]

    def needs(self, rows, tokens):
        """Blocks that running tokens of requests takes."""
        return -(-(self.computed[rows] + tokens) // self.block) - self.held[rows]

    def waiting(self):
        return len(self.evicted) + self.arrived - self.next

    def head(self):
        return self.evicted[0] if self.evicted else self.next

    def admit(self):
        """The queue's first joins those that run."""
        row = heapq.heappop(self.evicted) if self.evicted else self.next
        if row == self.next:
            self.next += 1
        self.running = np.append(self.running, row)

    def evict(self, row):
        """A request gives up its memory and waits; its output stays."""
        self.free += self.held[row]
        self.wasted[row] += self.computed[row]
        self.held[row] = self.computed[row] = 0
        self.evictions[row] += 1
        self.gone += 1
        heapq.heappush(self.evicted, int(row))


def sarathi(engine):
    """Decodes, then prefill chunks, then whoever of the queue's first fits whole: (rows, tokens)."""
    rows = engine.running
    left = engine.left(rows)
    decodes = (engine.produced[rows] > 0) & (left == 1)
    order = np.concatenate([np.flatnonzero(decodes), np.flatnonzero(~decodes)])
    rows = rows[order]
    before = np.cumsum(left[order]) - left[order]
    tokens = np.clip(engine.budget - before, 0, left[order])
    tokens[engine.limit :] = 0
    need = np.where(tokens > 0, engine.needs(rows, tokens), 0)
    if need.sum() <= engine.free:
        engine.free -= need.sum()
        engine.held[rows] += need
        return admitted(engine, rows[tokens > 0], tokens[tokens > 0])
    given = sarathi_one_by_one(engine, rows.tolist())
    return np.array(list(given), np.int64), np.array(list(given.values()), np.int64)


def sarathi_one_by_one(engine, rows):
    """The same, evicting who was admitted last until the rest fits; nobody is admitted after that."""
    kept, given = engine.running.tolist(), {}
    for row in rows:
        while row in kept:
            tokens = min(int(engine.left(row)), engine.budget - sum(given.values()))
            if tokens < 1 or len(given) == engine.limit:
                break
            need = int(engine.needs(row, tokens))
            if need <= engine.free:
                given[row] = tokens
                engine.held[row] += need
                engine.free -= need
                break
            last = kept.pop()
            given.pop(last, 0)
            engine.evict(last)
    engine.running = np.array(kept, np.int64)
    return given


def admitted(engine, rows, tokens):
    """The queue's first, as far as they fit, behind who runs."""
    budget, seats = engine.budget - int(tokens.sum()), engine.limit - rows.size
    more, chunks = [], []
    while engine.waiting() and seats and budget:
        row = engine.head()
        whole = int(engine.left(row))
        chunk = min(whole, budget)
        if engine.needs(row, whole) > engine.free:
            break
        need = int(engine.needs(row, chunk))
        engine.admit()
        engine.held[row] += need
        engine.free -= need
        more.append(row)
        chunks.append(chunk)
        budget, seats = budget - chunk, seats - 1
    return np.append(rows, np.array(more, np.int64)), np.append(tokens, np.array(chunks, np.int64))


def vidur(engine):
    """Vidur's Sarathi: a decode wants a free block, whether it needs it or not, and evicts the last behind it until there is
    one; prompts are reserved whole and leave a hundredth of the memory; the queue is looked at after evictions, too."""
    rows = engine.running
    decodes = engine.left(rows) == 1
    decodes &= engine.produced[rows] > 0
    turn, prefills = rows[decodes].tolist(), rows[~decodes].tolist()
    picked, tokens, gone = [], [], set()
    need = engine.needs(rows[decodes], 1)
    if need.sum() < engine.free:
        engine.held[rows[decodes]] += need
        engine.free -= need.sum()
        picked, turn = turn[: engine.limit], []
    # a prefill that stands behind the decode in question can be evicted; those before it have been set aside
    line = rows.tolist()
    while turn:
        row = turn.pop(0)
        while line and line[0] != row:
            line.pop(0)
        line.pop(0)
        while engine.free < 1:
            last = line.pop() if line else row
            gone.add(last)
            engine.evict(last)
            if last == row:
                break
            (prefills if last in prefills else turn).remove(last)
        if row not in gone:
            grown = int(engine.needs(row, 1))
            engine.held[row] += grown
            engine.free -= grown
            picked.append(row)
    tokens = [1] * len(picked)
    budget = engine.budget - len(picked)
    for row in prefills:
        chunk = min(int(engine.left(row)), budget)
        if chunk > 0:
            picked.append(row)
            tokens.append(chunk)
            budget -= chunk
    if gone:
        engine.running = np.array([row for row in rows.tolist() if row not in gone], np.int64)
    while engine.waiting() and engine.running.size < engine.limit and len(picked) < engine.limit:
        row = engine.head()
        whole = int(engine.left(row))
        need = int(engine.needs(row, whole))
        chunk = min(whole, budget)
        if engine.free - need < int(0.01 * engine.blocks) or chunk < 1:
            break
        engine.admit()
        engine.held[row] += need
        engine.free -= need
        picked.append(row)
        tokens.append(chunk)
        budget -= chunk
    return np.array(picked, np.int64), np.array(tokens, np.int64)


def simulate(
    arrival_s,
    prompt,
    output,
    form=sarathi,
    *,
    budget,
    limit,
    kv_tokens,
    block,
    law=(0.02347, 0.000145, 96.0),
):
    """Run to completion: (iterations, clock, request rows, iteration rows).

    Args:
        arrival_s: float64[n], ascending.
        law: seconds of an iteration, of each token beyond, and the tokens that are free.
    """
    n, constant, each, free_tokens = prompt.size, *law
    engine = Engine(prompt, output, budget, limit, kv_tokens, block)
    scheduled_s, first_s, finished_s = (np.full(n, np.nan) for _ in range(3))
    first_iteration, last_iteration = np.full(n, -1), np.full(n, -1)
    iterations, clock, done = [], 0.0, 0
    while done < n:
        while engine.arrived < n and arrival_s[engine.arrived] <= clock:
            engine.arrived += 1
        if not engine.running.size and not engine.waiting():
            clock = arrival_s[engine.arrived]
            continue
        engine.gone = 0
        rows, tokens = form(engine)
        before = engine.computed[rows]
        held, ran, waits = engine.blocks - engine.free, engine.running.size, engine.waiting()
        decodes = (engine.produced[rows] > 0) & (engine.left(rows) == 1)
        used = int(tokens.sum())
        seconds = constant + each * max(0.0, used - free_tokens)
        k, start = len(iterations), clock
        new = rows[first_iteration[rows] < 0]
        first_iteration[new], scheduled_s[new] = k, start
        clock = start + seconds
        producing = rows[tokens == engine.left(rows)]
        engine.computed[rows] += tokens
        first_s[producing[engine.produced[producing] == 0]] = clock
        engine.produced[producing] += 1
        over = producing[engine.produced[producing] == output[producing]]
        if over.size:
            finished_s[over], last_iteration[over] = clock, k
            engine.free += engine.held[over].sum()
            engine.held[over] = 0
            engine.running = engine.running[engine.produced[engine.running] < output[engine.running]]
            done += over.size
        iterations.append(
            (
                start,
                seconds,
                used,
                used - int(decodes.sum()),
                rows.size,
                int(decodes.sum()),
                int((before + tokens).sum()),
                held * block,
                ran,
                waits,
                engine.gone,
                producing.size,
            )
        )
    requests = np.column_stack(
        [
            arrival_s,
            scheduled_s,
            first_s,
            finished_s,
            first_iteration,
            last_iteration,
            engine.evictions,
            engine.wasted,
        ]
    )
    return len(iterations), clock, requests, np.array(iterations)
