"""The waiting queue and the running list of the engine simulator: arrivals, evictions, admissions."""

from __future__ import annotations

from evenstep.compiled import part
from evenstep.scheduling.order import key_of
from evenstep.scheduling.view import EVICTED, PICKED
from evenstep.sim.engine import model
from evenstep.sim.engine.kept import leave, set_left
from evenstep.sim.engine.model import Run


@part
def place_of(run: Run, row: int, key: float) -> int:
    """The index in `Lists.waiting` where a request with this key joins the queue: smallest key first, ties by request id."""
    waiting, shown, noted = run.lists.waiting, run.requests.shown, run.requests.noted
    low, high = run.now.first, run.now.first + run.now.waiting
    if high > low:
        last = waiting[high - 1]
        last_key = noted[last].key
        if key > last_key or (key == last_key and shown[row].request_id > shown[last].request_id):
            low = high
    while low < high:
        middle = (low + high) // 2
        other = waiting[middle]
        other_key = noted[other].key
        if other_key < key or (other_key == key and shown[other].request_id < shown[row].request_id):
            low = middle + 1
        else:
            high = middle
    return low


@part
def join(run: Run, row: int) -> None:
    """Insert a request into the queue by `Noted.key`, which is computed here unless the host gave it (`Fixed.is_keyed`)."""
    now, requests, waiting = run.now, run.requests, run.lists.waiting
    noted, attained = requests.noted[row], requests.hidden[row].attained
    if run.fixed.is_keyed == 0:
        noted.key = key_of(run.policy.order, run.fixed.seed, row, requests.table.T, requests.arrival_s, attained)
    place = place_of(run, row, noted.key)
    first, end = now.first, now.first + now.waiting
    if first > 0 and (place - first < end - place or end == waiting.size):
        for i in range(first, place):
            waiting[i - 1] = waiting[i]
        now.first -= 1
        waiting[place - 1] = row
    else:
        for i in range(end, place, -1):
            waiting[i] = waiting[i - 1]
        waiting[place] = row
    now.waiting += 1


@part
def arrive(run: Run) -> bool:
    """Let all requests that have arrived join the queue: by now, or with `schedules_ahead` by the last iteration's start.

    Returns True when all have joined; False if the host first has to set bounds (`Now.asked`) for the others.
    """
    fixed, now, requests, coming = run.fixed, run.now, run.requests, run.lists.coming
    seen_s = now.seen_s if fixed.schedules_ahead == 1 else now.now_s
    while now.coming < now.known and requests.arrival_s[coming[now.coming]] <= seen_s:
        if fixed.asks == 1 and now.coming >= now.asked:
            return False
        row = coming[now.coming]
        set_left(run, row)
        join(run, row)
        run.policy.arrived[requests.shown[row].request_class] += 1
        now.coming += 1
    return True


@part
def give_up(run: Run, row: int) -> int:
    """Free the memory of an evicted request, and set back its progress as `overflow` says. The caller queues it again.

    Its prefilled tokens fall to those in whole blocks that stay readable, or to 0 without `keeps_evicted`; `restart` also
    sets its produced tokens to 0. `swap` leaves both. Returns the KV tokens that left this memory, for the caller's totals:
    `swap` moves them back later, otherwise they are computed again.
    """
    fixed, request = run.fixed, run.requests.shown[row]
    kept = 0
    if fixed.keeps_evicted == 1:
        kept = request.prefilled // fixed.block_tokens * fixed.block_tokens
        leave(run, row, request.resident // fixed.block_tokens)
    wasted = request.prefilled - kept
    run.now.kv_free += request.resident
    request.resident = 0
    request.evictions += 1
    request.lost_at = request.produced
    request.reached = max(request.reached, request.produced)
    if fixed.overflow != model.SWAP:
        run.requests.noted[row].wasted_tokens += wasted
        request.prefilled = kept
        if fixed.overflow == model.RESTART:
            request.produced = 0
    set_left(run, row)
    return wasted


@part
def evict(run: Run) -> int:
    """Evict the running requests at the positions that the policy chose, and queue them again (`give_up`).

    Sets `Now.beside_s` to the seconds that this takes. Returns `RUNNING`, or `BAD_EVICTION` for a position without a running
    request or not in ascending order. Then `Now.detail` is the position, and earlier evictions stay made.
    """
    fixed, now, running = run.fixed, run.now, run.lists.running
    count, moved, wasted, squares, last = run.policy.counts[EVICTED], 0, 0, 0, -1
    for e in range(count):
        position = run.policy.evicted[e]
        if position <= last or position >= now.running:
            now.detail = position
            return model.BAD_EVICTION
        last = position
        row = int(running[position])
        held = run.requests.shown[row].prefilled
        moved += held
        squares += held * held
        wasted += give_up(run, row)
        now.taken_tokens -= tokens_of(run, row)
        running[position] = -1 - row
    stay = 0
    for i in range(now.running):
        if running[i] >= 0:
            running[stay] = running[i]
            stay += 1
        else:
            join(run, -1 - running[i])
    now.running = stay
    now.evictions += count
    if fixed.overflow == model.SWAP:
        now.moved_tokens += moved
        now.beside_s = fixed.swap_per_token_s * moved + fixed.swap_s * count
    else:
        now.wasted_tokens += wasted
        now.beside_s = fixed.drop_per_square_s * squares + fixed.drop_s * count
    return model.RUNNING


@part
def resolve(run: Run) -> int:
    """Replace the positions that the policy picked by request rows, in place, before evictions move any request.

    A row r of the queue is written as -1 - r. Returns `RUNNING`, or with the position in `Now.detail`: `BAD_POSITION` (no
    request), `BAD_ORDER` (queue positions do not ascend) or `BAD_EVICTION` (also evicted).
    """
    now, answer, last = run.now, run.policy, -1
    for p in range(answer.counts[PICKED]):
        position = answer.picked[0, p]
        now.detail = position
        if position < 0 or position >= now.running + now.waiting:
            return model.BAD_POSITION
        if position >= now.running:
            if position <= last:
                return model.BAD_ORDER
            last = position
            answer.picked[0, p] = -1 - run.lists.waiting[now.first + position - now.running]
        else:
            for e in range(answer.counts[EVICTED]):
                if answer.evicted[e] == position:
                    return model.BAD_EVICTION
            answer.picked[0, p] = run.lists.running[position]
    return model.RUNNING


@part
def tokens_of(run: Run, row: int) -> int:
    """Prompt tokens plus tokens produced so far of a request."""
    request = run.requests.shown[row]
    return request.prompt_tokens + request.produced


@part
def admit(run: Run) -> None:
    """Move picked requests from the queue to the running list, in the order of the queue; call it after `resolve`."""
    now, picked, waiting = run.now, run.policy.picked, run.lists.waiting
    at, taken = now.first, 0
    for p in range(run.policy.counts[PICKED]):
        if picked[0, p] >= 0:
            continue
        row = -1 - picked[0, p]
        while waiting[at] != row:  # queue order, as `resolve` made sure; evicted ones may stand between
            at += 1
        run.lists.running[now.running] = row
        now.running += 1
        now.taken_tokens += tokens_of(run, row)
        waiting[at] = -1
        taken += 1
        at += 1
    if taken == 0:
        return
    # requests before the last one taken move up to it, so that the tail of the queue stays where it is
    end, head = now.first + now.waiting, at
    for i in range(at - 1, now.first - 1, -1):
        if waiting[i] >= 0:
            head -= 1
            waiting[head] = waiting[i]
    now.first, now.waiting = head, end - head
