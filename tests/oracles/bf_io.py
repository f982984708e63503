"""BF-IO in plain words: what the rule decides, equal in bits, with lists and whole-array expressions.

A `Plan` is an assignment under construction. Each starting order fills one greedily, a local search improves it, the
best is fitted anew to shifted levels and searched again; two slots are settled exactly. Sums over steps are taken in a
fixed order: they decide.
"""

from __future__ import annotations

import numpy as np
from tests.oracles.bf_io_levels import fit_best_level
from tests.oracles.bf_io_moment import TOLERANCE, Moment, in_lanes, in_order
from tests.oracles.bf_io_pair import best_pair

from evenstep.request import F8, I8
from evenstep.routing.policies.bf_io import BFIO
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView

#: The oldest so many are tried in every slot, where age is worth something.
OLDEST = 4
#: The starting order that goes by age.
ARRIVAL = 1
#: Times the best plan is fitted to another level, as long as that gains.
ROUNDS = 2


def route(policy: BFIO, view: RoutingView) -> RoutingDecision:
    """What the rule of BF-IO decides."""
    moment = Moment.of(view, policy.horizon, policy.discount, policy.tie_weight, policy.window, policy.age_limit)
    return RoutingDecision(decide(moment, policy.starts, policy.moves), view.memory)


def decide(moment: Moment, starts: int, moves: int, rounds: int = ROUNDS, oldest: int = 1) -> I8:
    """int64[waiting], worker of each request or `HOLD`; `starts` and `moves` as in `BFIO`, `rounds` of levels at most.

    With 0 starts the plan is filled in order of arrival, and the search only moves requests between workers. Above 1, the
    largest that fits of the `oldest` goes before the order of each start.
    """
    answer = np.full(moment.waiting, HOLD, np.int64)
    if moment.count == 0:
        return answer
    plan = Plan(moment)
    best: tuple[float, list[tuple[int, int]], int] = (np.inf, [], 0)
    best_envelope = plan.envelope.copy()
    for number, start in enumerate(range(starts) if starts else [ARRIVAL]):
        pinned = plan.fill(start, oldest)
        if starts == 0:
            pinned = len(plan.slots)
        plan.search(pinned, moves)
        plan.refill()
        value = plan.value()
        more = len(plan.slots) > len(best[1]) or number == 0
        if more or (len(plan.slots) == len(best[1]) and value < best[0]):
            best, best_envelope = (value, list(plan.slots), pinned), plan.envelope.copy()
    levels_help = starts > 0 and len(best[1]) < moment.size.size and moves > 0 and not plan.tries_all
    for _ in range(rounds if levels_help else 0):
        if not fit_best_level(plan, best[1], best[2], best_envelope):
            break
        plan.search(best[2], moves)
        plan.refill()
        value = plan.value()
        if len(plan.slots) == len(best[1]) and value >= best[0]:
            break
        best, best_envelope = (value, list(plan.slots), best[2]), plan.envelope.copy()
    slots = best[1]
    if levels_help and len(slots) == 2 and best[2] == 0:
        slots = best_pair(moment, plan.size, slots)
    for i, worker in plan.oldest_first(slots):
        answer[i] = worker
    return answer


class Plan:
    """An assignment under construction. Requests go by rank: ascending size, older first among equals."""

    def __init__(self, moment: Moment) -> None:
        self.moment = moment
        self.weight, self.growth = moment.weight, moment.growth
        self.index = np.argsort(moment.size, kind="stable")
        self.rank = np.argsort(self.index, kind="stable")
        self.size, self.profile = moment.size[self.index], moment.profile[self.index]
        ends_known = bool((moment.stays < self.weight.size).any())
        self.tries_all = ends_known or moment.quota.size > 1 or moment.bonus.size > 0
        self.kind, self.worth = moment.kind[self.index], moment.worth[self.index]
        self.is_worth = bool(self.worth.size and moment.worth[0] > 0)
        self.members = np.bincount(moment.group).astype(np.float64)
        self.open = [g for g in range(moment.group.size) if moment.free_slots[g] > 0]
        self.base_total = np.zeros((self.members.size, self.weight.size))
        for g, q in enumerate(moment.group):
            self.base_total[q] += moment.load[g]
        self.clear()

    def clear(self) -> None:
        """Take back every admission."""
        self.load = self.moment.load.copy()
        self.total = self.base_total.copy()
        self.room = self.moment.free_slots.copy()
        self.quota = self.moment.quota.copy()
        self.kv_left = self.moment.kv_free.copy()
        self.taken = np.zeros(self.size.size, bool)
        self.slots: list[tuple[int, int]] = []  # (worker, rank)
        self.survey()

    def survey(self) -> None:
        """Set the envelope of every group, and the runner-up: the envelope without its heaviest worker."""
        self.envelope, self.runner_up = np.empty_like(self.total), np.full_like(self.total, -np.inf)
        for q in range(self.members.size):
            ordered = np.sort(self.load[self.moment.group == q], axis=0)
            self.envelope[q] = ordered[-1]
            if ordered.shape[0] > 1:
                self.runner_up[q] = ordered[-2]

    def put(self, g: int, out: list[int], into: list[int]) -> None:
        """Take requests from worker g and give it others, one for one where both are given."""
        for old, new in zip(out or [-1] * len(into), into or [-1] * len(out), strict=True):
            gained = self.profile[new] if new >= 0 else 0.0
            lost = self.profile[old] if old >= 0 else 0.0
            delta = self.moment.speed[g] * (gained - lost)
            self.load[g] += delta
            self.total[self.moment.group[g]] += delta
            self.kv_left[g] += (self.size[old] if old >= 0 else 0.0) - (self.size[new] if new >= 0 else 0.0)
            self.room[g] += (old >= 0) - (new >= 0)
        self.taken[out] = False
        self.taken[into] = True
        self.survey()

    def fill(self, start: int, oldest: int) -> int:
        """Fill the slots, the overdue first, then in the order of the start; how many overdue got in.

        With `oldest` above 1 the largest that fits of so many that wait goes before that order. Each goes to the worker with the least load (weighted over the steps) that has room for it. No class but the
        overdue gets more than its quota, unless slots would stay empty.
        """
        self.clear()
        burden = {g: in_order((self.weight * self.load[g]).tolist()) for g in self.open}
        everyone = range(self.size.size)
        order = list((reversed(everyone), self.rank.tolist(), everyone)[start])

        def place(r: int, within_quota: bool = True) -> None:
            if self.taken[r] or not self.fitting(r) or (within_quota and self.quota[self.kind[r]] == 0):
                return
            self.quota[self.kind[r]] = max(self.quota[self.kind[r]] - 1, 0)
            g = min(self.fitting(r), key=burden.__getitem__)
            self.put(g, [], [r])
            self.slots.append((g, r))
            burden[g] = in_order((self.weight * (self.moment.speed[g] * self.profile[r])).tolist(), burden[g])

        for r in self.rank[: self.moment.forced].tolist():
            place(r, within_quota=False)
        pinned = len(self.slots)
        while oldest > 1:
            seen = [r for r in self.rank.tolist() if not self.taken[r]][:oldest]
            fits = [r for r in seen if self.fitting(r) and self.quota[self.kind[r]] > 0]
            if not fits:
                break
            place(max(fits, key=self.size.__getitem__))
        for r in order:
            place(r)
        for r in order if self.quota.size > 1 else []:
            place(r, within_quota=False)
        return pinned

    def fitting(self, r: int) -> list[int]:
        """The open workers that have room for a request."""
        if len(self.slots) == self.moment.count:
            return []
        return [g for g in self.open if self.room[g] > 0 and self.size[r] <= self.kv_left[g]]

    def refill(self) -> None:
        """Give the slots that KV memory left empty, and that the search made room for, to the oldest that fit."""
        burden = {g: in_order((self.weight * self.load[g]).tolist()) for g in self.open}
        for r in self.rank.tolist():
            if self.taken[r] or not self.fitting(r):
                continue
            g = min(self.fitting(r), key=burden.__getitem__)
            self.put(g, [], [r])
            self.slots.append((g, r))
            burden[g] = in_order((self.weight * (self.moment.speed[g] * self.profile[r])).tolist(), burden[g])

    def objective(self) -> float:
        """J of the plan up to a constant of the decision: members times envelope, minus the admitted load."""
        value = 0.0
        for q, members in enumerate(self.members):
            added, both = self.total[q] - self.base_total[q], self.total[q] + self.base_total[q]
            tie = self.moment.tie[q]
            gained = self.moment.reward * added
            terms = self.weight * (members * self.envelope[q] - gained - tie * (added * both) / members)
            value = in_order(terms.tolist(), value)
        for g in self.open:
            tie = self.moment.tie[self.moment.group[g]]
            if tie > 0:
                load, base = self.load[g], self.moment.load[g]
                value = in_order((self.weight * (tie * ((load - base) * (load + base)))).tolist(), value)
            if self.moment.pull[g] > 0:
                off = self.load[g, 0] - self.moment.target[g]
                value += self.moment.pull[g] * (off * off)
        for g, r in self.slots if self.moment.bonus.size else []:
            value -= self.bonus(r, g)
        return value

    def value(self) -> float:
        """The objective, less what those admitted are worth."""
        return in_order([-float(self.worth[r]) for _, r in self.slots], self.objective())

    def bonus(self, r: int, g: int) -> float:
        """What request r is worth on worker g beyond its load."""
        return float(self.moment.bonus[self.index[r], g])

    def pulled(self, g: int, tokens: float) -> float:
        """The loss of the pull on worker g if its load of this step moves by this much."""
        off = self.load[g, 0] - self.moment.target[g]
        return float(self.moment.pull[g] * (tokens * (2.0 * off + tokens)))

    def others(self, g: int) -> F8:
        """float64[n], envelope of g's group without g."""
        q = self.moment.group[g]
        return np.where(self.load[g] >= self.envelope[q], self.runner_up[q], self.envelope[q])

    def deviation_change(self, g: int, delta: F8) -> F8:
        """Change of the sum of squared deviations in g's group when its load moves by delta."""
        q = self.moment.group[g]
        mean, share = self.total[q] / self.members[q], 1.0 - 1.0 / self.members[q]
        return delta * (2.0 * (self.load[g] - mean) + delta * share)

    def replacement_gain(self, g: int, delta: F8) -> float:
        """The gain of the objective if worker g's load moves by delta because its requests changed."""
        q = self.moment.group[g]
        top = np.maximum(self.others(g), self.load[g] + delta)
        terms = self.weight * (self.members[q] * (self.envelope[q] - top) + self.moment.reward * delta)
        tie = self.moment.tie[q]
        if tie > 0:
            terms = terms - self.weight * (tie * self.deviation_change(g, delta))
        gain = in_lanes(terms)
        return gain - self.pulled(g, float(delta[0])) if self.moment.pull[g] > 0 else gain

    def transfer_gain(self, g: int, p: int, delta: F8) -> float:
        """The gain of the objective if delta moves from worker g to p (a lower bound if delta is negative)."""
        q, z = self.moment.group[g], self.moment.group[p]
        leaving, coming = self.moment.speed[g] * delta, self.moment.speed[p] * delta
        left, right = self.load[g] - leaving, self.load[p] + coming
        if q == z:
            top = np.maximum(self.others(g), np.maximum(left, right))
            terms = self.weight * (self.members[q] * (self.envelope[q] - top))
        else:
            fall = self.members[q] * (self.envelope[q] - np.maximum(self.others(g), left))
            rise = self.members[z] * (np.maximum(self.envelope[z], right) - self.envelope[z])
            terms = self.weight * (fall - rise)
        tie, tie_there = self.moment.tie[q], self.moment.tie[z]
        if tie > 0 or tie_there > 0:
            there = self.deviation_change(p, delta)
            if q == z:
                there = there + 2.0 * delta * delta / self.members[q]
            terms = terms - self.weight * (tie * self.deviation_change(g, -delta) + tie_there * there)
        if self.moment.speed[g] != self.moment.speed[p]:
            terms = terms + self.weight * (self.moment.reward * (coming - leaving))
        gain = in_lanes(terms)
        if self.moment.pull[g] > 0:
            gain -= self.pulled(g, -float(leaving[0])) + self.pulled(p, float(coming[0]))
        return gain

    def ideal_size(self, g: int, leaving: F8) -> float:
        """The ideal size to replace `leaving` (float64[n]) on worker g, if every size were available.

        J is convex in that size: its slope starts at minus the weight of all steps and rises by members * weight[h] at
        the margin of each step (and evenly, with the tie-breaker). Walk until it turns positive.
        """
        q = self.moment.group[g]
        members, tie = self.members[q], self.moment.tie[q]
        speed, pull = float(self.moment.speed[g]), float(self.moment.pull[g])
        delta = speed * (self.growth - leaving)
        rest = self.load[g] + delta
        margin = self.others(g) - rest
        mean = (self.total[q] + delta) / members
        down, rise = 0.0, 0.0
        for h, weight in enumerate(self.weight.tolist()):
            down += self.moment.reward * weight
            if tie > 0:
                down -= weight * (2.0 * tie * (rest[h] - mean[h]))
                rise += weight * (2.0 * tie * (1.0 - 1.0 / members))
        if pull > 0:
            down -= 2.0 * pull * (rest[0] - self.moment.target[g])
            rise += 2.0 * pull
        last = -np.inf
        while rise > 0 or down > 0:
            at = int(np.argmin(margin))
            if rise > 0 and down / rise <= margin[at]:
                return max(down / rise, last) / speed
            if margin[at] == np.inf:
                break
            last = float(margin[at])
            down -= members * self.weight[at]
            margin[at] = np.inf
        return last / speed

    def below(self, r: int) -> int:
        """The next rank below r that waits, -1 if none."""
        return next((i for i in range(r - 1, -1, -1) if not self.taken[i]), -1)

    def above(self, r: int) -> int:
        """The first rank from r on that waits, W if none."""
        return next((i for i in range(r, self.size.size) if not self.taken[i]), self.size.size)

    def rank_from(self, size: float) -> int:
        """First rank whose size is at least `size`."""
        return int(np.searchsorted(self.size, size, side="left"))

    def best_replacement(self, g: int, out: int) -> int:
        """The waiting request that gains most in place of `out` on worker g; -1 if none gains."""
        limit = self.kv_left[g] + self.size[out]
        if self.tries_all:
            candidates = np.flatnonzero(~self.taken & (self.kind == self.kind[out])).tolist()
        else:
            start = self.rank_from(min(self.ideal_size(g, self.profile[out]), limit))
            candidates = [r for r in (self.below(start), self.above(start)) if 0 <= r < self.size.size]
            candidates += self.oldest()
        best, best_gain = -1, TOLERANCE
        for r in candidates:
            if self.size[r] <= limit:
                gain = self.replacement_gain(g, self.moment.speed[g] * (self.profile[r] - self.profile[out]))
                if self.moment.bonus.size:
                    gain += self.bonus(r, g) - self.bonus(out, g)
                gain += float(self.worth[r]) - float(self.worth[out])
                if gain > best_gain:
                    best, best_gain = r, gain
        return best

    def oldest(self) -> list[int]:
        """Those that have waited longest, where that is worth something."""
        waiting = [r for r in self.rank.tolist() if not self.taken[r]] if self.is_worth else []
        return waiting[:OLDEST]

    def nearest_pairs(self, ideal: float, limit: float) -> list[tuple[int, int]]:
        """The two waiting requests that add up to the most below `ideal`, and to the least from it on, within limit."""
        under, over = (-np.inf, (-1, -1)), (np.inf, (-1, -1))
        low, high = self.above(0), self.below(self.size.size)
        while low < high:
            total = self.size[low] + self.size[high]
            if total < ideal:
                if under[0] < total <= limit:
                    under = (total, (low, high))
                low = self.above(low + 1)
            else:
                if total < over[0] and total <= limit:
                    over = (total, (low, high))
                high = self.below(high)
        return [pair for _, pair in (under, over) if pair[0] >= 0]

    def replace_pair(self, k: int, m: int) -> bool:
        """Replace the requests of two slots of one worker by the best two that wait; whether that gained anything."""
        (g, x), (_, y) = self.slots[k], self.slots[m]
        size = self.size[x] + self.size[y]
        limit = self.kv_left[g] + size
        ideal = min(self.ideal_size(g, size + self.growth), limit)
        self.taken[[x, y]] = False
        pairs = self.nearest_pairs(ideal, limit)
        self.taken[[x, y]] = True
        best, best_gain = (-1, -1), TOLERANCE
        for low, high in pairs:
            delta = (self.size[low] + self.size[high] + self.growth) - (size + self.growth)
            gain = self.replacement_gain(g, self.moment.speed[g] * delta)
            gain += float((self.worth[low] + self.worth[high]) - (self.worth[x] + self.worth[y]))
            if gain > best_gain:
                best, best_gain = (low, high), gain
        if best[0] < 0:
            return False
        self.put(g, [x, y], list(best))
        self.slots[k], self.slots[m] = (g, best[0]), (g, best[1])
        return True

    def replace(self, k: int) -> tuple[bool, int]:
        """Replace the request of slot k from the pool, or else it and another of its worker; (gained, tries)."""
        g, out = self.slots[k]
        r = self.best_replacement(g, out)
        if r >= 0:
            self.put(g, [out], [r])
            self.slots[k] = (g, r)
            return True, 1
        tries = 1
        for m in range(k + 1, len(self.slots)):
            if self.slots[m][0] == g and not self.tries_all:
                tries += 1
                if self.replace_pair(k, m):
                    return True, tries
        return False, tries

    def transfer(self, k: int) -> tuple[bool, int]:
        """Move the request of slot k to another worker or swap it there, where it gains most; (gained, tries)."""
        g, out = self.slots[k]
        to, swap, best_gain, tries = -1, -1, TOLERANCE, 0
        for p in self.open:
            if p != g and self.room[p] > 0 and self.size[out] <= self.kv_left[p]:
                gain, tries = self.transfer_gain(g, p, self.profile[out] - 0.0), tries + 1
                if self.moment.bonus.size:
                    gain += self.bonus(out, p) - self.bonus(out, g)
                if gain > best_gain:
                    to, swap, best_gain = p, -1, gain
        for m, (p, back) in enumerate(self.slots):
            delta = self.size[out] - self.size[back]
            if p != g and 0 < delta <= self.kv_left[p]:
                gain, tries = self.transfer_gain(g, p, self.profile[out] - self.profile[back]), tries + 1
                if self.moment.bonus.size:
                    there = self.bonus(out, p) + self.bonus(back, g)
                    gain += there - (self.bonus(out, g) + self.bonus(back, p))
                if gain > best_gain:
                    to, swap, best_gain = p, m, gain
        if to < 0:
            return False, tries
        back = [self.slots[swap][1]] if swap >= 0 else []
        self.put(g, [out], back)
        self.put(to, back, [out])
        self.taken[back] = True
        self.slots[k] = (to, out)
        if swap >= 0:
            self.slots[swap] = (g, back[0])
        return True, tries

    def search(self, pinned: int, tries: int) -> None:
        """Improve slot after slot until none has gained for a whole round, or the tries are used up.

        The overdue, in the first `pinned` slots, are not replaced. Without tie-breaker only a worker above all others
        can gain by giving a request away.
        """
        k, idle = 0, 0
        while idle < len(self.slots) and tries > 0:
            idle += 1
            g = self.slots[k][0]
            if k >= pinned and len(self.slots) < self.size.size:
                gained, used = self.replace(k)
                tries, idle = tries - used, 0 if gained else idle
            is_drawn = self.moment.tie[self.moment.group[g]] > 0 or self.moment.pull[g] > 0
            if is_drawn or self.moment.bonus.size or (self.load[g] > self.others(g)).any():
                gained, used = self.transfer(k)
                tries, idle = tries - used, 0 if gained else idle
            k = (k + 1) % len(self.slots)

    def oldest_first(self, slots: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """(place in the pool, worker) of each slot; of requests alike in size the oldest go, which is as good."""
        ordered = sorted(slots, key=lambda slot: slot[1])
        answer: list[tuple[int, int]] = []
        for position, (g, r) in enumerate(ordered):
            if not self.tries_all:
                first = self.rank_from(float(self.size[r]))
                alike = sum(self.size[other] == self.size[r] for _, other in ordered[:position])
                r = first + int(alike)
            answer.append((int(self.index[r]), g))
        return answer
