"""Expected tokens of a task before and after each of its calls; agent-aware orders sort by them."""

from __future__ import annotations

import numpy as np

from evenstep.request import F8
from evenstep.sim.network.description import END, Network, TaskSection, first_calls
from evenstep.sim.network.tasks import Calls

#: Points of a law's quantile function that its mean is taken over, and rounds of a loop's expectation.
_POINTS, _ROUNDS = 1000, 2000


def mean_tokens(task: TaskSection) -> dict[str, tuple[float, float]]:
    """Mean prompt and output tokens of each call."""
    u = (np.arange(_POINTS) + 0.5) / _POINTS
    return {
        name: (float(call.prompt.quantile(u).mean()), float(call.output.quantile(u).mean()))
        for name, call in task.calls.items()
    }


def remaining(task: TaskSection) -> dict[str, float]:
    """Expected tokens of the longest path from the start of each call to the end of its task, by call."""
    tokens = {name: sum(both) for name, both in mean_tokens(task).items()}
    joins = {name: [c for c, one in task.calls.items() if name in one.after] for name in task.calls}
    found = dict(tokens)
    for _ in range(_ROUNDS):
        before = found
        found = {}
        for name, call in task.calls.items():
            by_chance = sum(chance * before[one] for one, chance in call.then.items() if one != END)
            found[name] = tokens[name] + max([by_chance, *(before[one] for one in joins[name])])
        if all(abs(found[name] - before[name]) <= 1e-9 * found[name] for name in found):
            break
    return found


def visits(task: TaskSection) -> dict[str, float]:
    """Mean number of times a task runs each call. A join runs as often as the rarest of its parents."""
    begin = first_calls(task)
    found = dict.fromkeys(task.calls, 0.0)
    for _ in range(_ROUNDS):
        last = found
        led = dict.fromkeys(task.calls, 0.0)
        for name, call in task.calls.items():
            for follows, chance in call.then.items():
                if follows != END:
                    led[follows] += chance * last[name]
        found = {
            name: min(last[one] for one in call.after) if call.after else led[name] + (name in begin)
            for name, call in task.calls.items()
        }
        if all(abs(found[name] - last[name]) <= 1e-12 for name in found):
            break
    return found


def ancestors(task: TaskSection) -> dict[str, frozenset[str]]:
    """Calls that may come before each call of a task."""
    found = {name: frozenset(call.after) for name, call in task.calls.items()}
    for name, call in task.calls.items():
        for follows, chance in call.then.items():
            if follows != END and chance > 0:
                found[follows] |= {name}
    for _ in task.calls:
        found = {name: own | frozenset(more for one in own for more in found[one]) for name, own in found.items()}
    return found


def before(task: TaskSection) -> dict[str, float]:
    """Expected tokens of the longest path from the task's start to each call, by call. Ways back in a loop do not count."""
    tokens = {name: sum(both) for name, both in mean_tokens(task).items()}
    place = {name: k for k, name in enumerate(task.calls)}
    found = dict.fromkeys(task.calls, 0.0)
    for _ in range(len(task.calls)):
        for name, call in task.calls.items():
            led = [one for one, other in task.calls.items() if other.then.get(name, 0) > 0 and place[one] < place[name]]
            found[name] = max([0.0, *(found[one] + tokens[one] for one in (*call.after, *led))])
    return found


def static_keys(network: Network, calls: Calls) -> F8:
    """float64[C], the key of each call under `critical-path` or `longest-path`; the smallest goes first.

    Recorded tasks are known whole: their keys are of what was recorded.
    """
    keys = np.zeros(calls.task.size)
    for kind, (name, call) in enumerate(calls.kinds):
        task = network.tasks[name]
        if task.calls:
            left, done = remaining(task), before(task)
            longest = max(left[one] + done[one] for one in task.calls)
            key = -left[call] if network.order == "longest-path" else max(longest - done[call] - left[call], 0.0)
            keys[calls.kind == kind] = key
    recorded = np.array([not network.tasks[name].calls for name, _ in calls.kinds])[calls.kind]
    if recorded.any():
        keys[recorded] = _recorded_keys(network, calls)[recorded]
    return keys


def _recorded_keys(network: Network, calls: Calls) -> F8:
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
