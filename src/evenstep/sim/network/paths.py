"""Expected tokens of a task before and after each of its calls; agent-aware orders sort by them."""

from __future__ import annotations

import numpy as np

from evenstep.errors import InputError
from evenstep.request import F8
from evenstep.sim.network.description import END, Network, TaskSection, first_calls
from evenstep.sim.network.graph import means
from evenstep.sim.network.tasks import MOST_VISITS, Calls
from evenstep.workload.synthetic.laws import mean

#: A path counts as longer than another if it is longer by this share.
_ROUNDING = 1e-12
#: Decimal places to which slacks are rounded: unrounded, two calls without slack would differ.
_PLACES = 6
#: A loop that takes this many times `MOST_VISITS` visits on average ends within `MOST_VISITS` with a chance of 1 %.
_TOO_MANY = 100


def mean_tokens(task: TaskSection) -> dict[str, tuple[float, float]]:
    """Call -> (mean prompt tokens, mean output tokens), by the call's laws, for a task with `calls`."""
    return {name: (mean(call.prompt), mean(call.output)) for name, call in task.calls.items()}


def remaining(task: TaskSection) -> dict[str, float]:
    """Call -> expected tokens, prompt and output, of the longest path from its start to the end of the task.

    From a call, the ways on are `then`, by its chances, and each call that waits for this one. Found by policy iteration.
    """
    place = {name: k for k, name in enumerate(task.calls)}
    tokens = np.array([sum(both) for both in mean_tokens(task).values()])
    ways = [_ways(task, name, place) for name in task.calls]
    taken = [0] * len(ways)
    while True:
        left = np.linalg.solve(np.eye(len(ways)) - np.array([way[k] for way, k in zip(ways, taken, strict=True)]), tokens)
        best = [_longest(way @ left, k) for way, k in zip(ways, taken, strict=True)]
        if best == taken:
            return dict(zip(task.calls, left.tolist(), strict=True))
        taken = best


def _ways(task: TaskSection, name: str, place: dict[str, int]) -> F8:
    """float64[W, calls], the chances of the next call on each way on: row 0 is `then`, each other row is a waiting call."""
    joins = [call for call, one in task.calls.items() if name in one.after]
    found = np.zeros((1 + len(joins), len(place)))
    for follows, chance in task.calls[name].then.items():
        if follows != END:
            found[0, place[follows]] = chance
    found[np.arange(1, len(found)), [place[call] for call in joins]] = 1
    return found


def _longest(left: F8, taken: int) -> int:
    """Index of the longest way in `left`; `taken` unless another is clearly longer, so that rounding changes nothing."""
    return int(left.argmax()) if left.max() > left[taken] * (1 + _ROUNDING) else taken


def visits(task: TaskSection) -> dict[str, float]:
    """Call -> mean number of times a task runs it. A call that waits for several runs as often as each of them."""
    led, begin = means(task.calls), first_calls(task)
    begun = np.array([float(name in begin) for name in task.calls])
    return dict(zip(task.calls, np.linalg.solve(np.eye(len(led)) - led.T, begun).tolist(), strict=True))


def check_visits(network: Network) -> None:
    """Raise an InputError if a task would run some call with `then` over 10,000,000 times on average, in a loop."""
    for name, task in network.tasks.items():
        for call, often in (visits(task) if task.calls else {}).items():
            if often > _TOO_MANY * MOST_VISITS and task.calls[call].then:
                found, expected = f"about {often:.0e} visits of one task", f"a loop that ends within {MOST_VISITS} visits"
                hint = "Give the way out a larger share."
                raise InputError("network", f"tasks.{name}.calls.{call}.then", found, expected, hint)


def ancestors(task: TaskSection) -> dict[str, frozenset[str]]:
    """For each call, the calls that must run before every run of it, since its previous run or the task's start."""
    return {name: _on_all_ways(task, name)[name] for name in task.calls}


def _on_all_ways(task: TaskSection, target: str = END) -> dict[str, frozenset[str]]:
    """For each call, the calls on every way to it from the task's start, or from where `target` last ran."""
    begin, found = first_calls(task), dict.fromkeys(task.calls, frozenset(task.calls))
    while True:
        last, passed = found, {name: on_way | {name} for name, on_way in found.items()} | {target: frozenset[str]()}
        found = dict[str, frozenset[str]]()
        for name, call in task.calls.items():
            led = [one for one, other in task.calls.items() if other.then.get(name, 0) > 0 and not one == name == target]
            ways = [passed[one] for one in led] + [frozenset()] * (name in begin)
            found[name] = (
                frozenset.union(*(passed[one] for one in call.after)) if call.after else ways[0].intersection(*ways)
            )
        if found == last:
            return found


def before(task: TaskSection) -> dict[str, float]:
    """Call -> expected tokens of the longest path from the task's start to its start. Ways back in a loop do not count."""
    tokens = {name: sum(both) for name, both in mean_tokens(task).items()}
    passed = _on_all_ways(task)
    ways = [(parent, name) for name, call in task.calls.items() for parent in call.after]
    ways += [
        (name, one)
        for name, call in task.calls.items()
        for one, chance in call.then.items()
        if chance > 0 and one not in (END, name, *passed[name])
    ]
    found = dict.fromkeys(task.calls, 0.0)
    for _ in found:
        for one, name in ways:
            found[name] = max(found[name], found[one] + tokens[one])
    return found


def static_keys(network: Network, calls: Calls) -> F8:
    """float64[C], the key of each call under the order `critical-path` or `longest-path`; the smallest goes first.

    With `critical-path` it is the slack, in tokens, to the task's longest path; with `longest-path` minus the tokens of the
    longest path from the call on. Both are expected values for drawn tasks, and from recorded lengths for recorded tasks.
    """
    keys = np.zeros(calls.task.size)
    for kind, (name, call) in enumerate(calls.kinds):
        task = network.tasks[name]
        if task.calls:
            left, done = remaining(task), before(task)
            longest = max(left[one] + done[one] for one in task.calls)
            slack = max(round(longest - done[call] - left[call], _PLACES), 0.0)
            key = -left[call] if network.order == "longest-path" else slack
            keys[calls.kind == kind] = key
    recorded = np.array([not network.tasks[name].calls for name, _ in calls.kinds])[calls.kind]
    if recorded.any():
        keys[recorded] = _recorded_keys(network, calls)[recorded]
    return keys


def _recorded_keys(network: Network, calls: Calls) -> F8:
    """float64[C], `static_keys` from each call's recorded tokens."""
    tokens = (calls.prompt + calls.output).astype(np.float64)
    left, done = tokens.copy(), np.zeros(tokens.size)
    order = np.argsort(calls.parent, kind="stable")  # a parent stands above its children
    for k in order[::-1]:
        parent, child = calls.parent[k], calls.child[k]
        left[parent] = max(left[parent], tokens[parent] + left[child])
    for k in np.argsort(calls.child, kind="stable"):
        parent, child = calls.parent[k], calls.child[k]
        done[child] = max(done[child], done[parent] + tokens[parent])
    if network.order == "longest-path":
        return -left
    longest = np.zeros(calls.arrival_s.size)
    np.maximum.at(longest, calls.task, left + done)
    return longest[calls.task] - left - done
