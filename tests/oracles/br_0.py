"""BR-0 once more, written from the paper's Algorithm 2 alone: slow, and to be read beside it."""

from __future__ import annotations

from itertools import combinations

HOLD = -1


def br_0(load: list[float], free: list[int], size: list[float], candidates: int = 8) -> list[int]:
    """Worker of each waiting request, or `HOLD`; one barrier group, oldest request first.

    Our reading where the text is silent: stage 1 runs down to as many free slots as workers; a worker keeps the key
    (free slots, margin) that it queued with; where no subset is worth anything, the best single request of the whole
    pool goes; ties go to the oldest request, the lowest worker, and the subset of fewest and largest requests.

    Source: BalanceRoute sec. 3 and App. B, Algorithm 2.
    """
    G, load, free = len(load), list(load), list(free)
    envelope, pool = max(load), list(range(len(size)))
    answer = [HOLD] * len(size)

    def score(tokens: float, g: int) -> float:
        return tokens - G * max(0.0, tokens - (envelope - load[g]))

    def single(g: int) -> tuple[int, ...]:
        return (max(pool, key=lambda i: (score(size[i], g), -i)),)

    def admit(g: int, requests: tuple[int, ...]) -> None:
        nonlocal envelope
        for i in requests:
            answer[i] = g
            pool.remove(i)
            load[g] += size[i]
            free[g] -= 1
        envelope = max(envelope, load[g])

    while sum(free) > G and pool:
        g = min((g for g in range(G) if free[g] > 0), key=lambda g: (-free[g], load[g], g))
        admit(g, single(g))
    queue = {g: (-free[g], load[g] - envelope, g) for g in range(G) if free[g] > 0}
    while pool and queue:
        g = min(queue, key=lambda g: queue[g])
        del queue[g]
        largest = sorted(pool, key=lambda i: (-size[i], i))[:candidates]
        subsets = [s for n in range(1, min(free[g], len(largest)) + 1) for s in combinations(largest, n)]
        best = max(subsets, key=lambda s: score(sum(size[i] for i in s), g))
        worth = score(sum(size[i] for i in best), g)
        admit(g, best if worth > 0 else single(g))
        if free[g] > 0:
            queue[g] = (-free[g], load[g] - envelope, g)
    return answer
