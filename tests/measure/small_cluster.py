"""A cluster of a few lines, slot by slot, to make record tables that tests can trust; not the simulator."""

from __future__ import annotations

import numpy as np
from tests.oracles.energy import energy_j

from evenstep.cost.power import Power
from evenstep.measure.digest import digest_of
from evenstep.measure.records import Conditions, RequestTable, Run, StepTable, Totals, WorkerTable
from evenstep.measure.tally import Tally

Row = tuple[float, ...]


def small_run(
    prompts: list[int],
    outputs: list[int],
    *,
    workers: int = 1,
    slots: int = 2,
    overhead_s: float = 1.0,
    per_token_s: float = 1.0,
    even: bool = False,
    policy: str = "fcfs",
    oracle: bool = False,
    exact: bool = True,
) -> Run:
    """All requests present at the start, oldest first; to the worker with most free slots, or, when `even`, the
    longest waiting prompt of the next 64 to the lightest worker with a free slot."""
    waiting = list(range(len(prompts)))
    active: list[list[list[int]]] = [[] for _ in range(workers)]  # [request, load, steps left]
    steps: list[Row] = []
    samples: list[tuple[Row, Row]] = []
    done: dict[int, Row] = {}
    admitted: dict[int, tuple[float, float, int]] = {}
    now, step = 0.0, 0
    while waiting or any(active):
        new = _admit(waiting, active, prompts, outputs, slots, even)
        load = np.array([sum(r[1] for r in a) for a in active], np.float64)
        running = np.array([len(a) for a in active], np.int64)
        duration = overhead_s + per_token_s * load.max()
        local = per_token_s * load
        busy_idle, average = energy_j(Power(), running, local, overhead_s, duration)
        count = int(running.sum())
        top, total, low = load.max(), load.sum(), load.min()
        steps.append(
            (
                0,
                step,
                now,
                duration,
                top,
                total,
                low,
                local.max(),
                local.sum(),
                count,
                count,
                len(new),
                count,
                busy_idle,
                average,
            )
        )
        samples.append((tuple(load), tuple(running)))
        admitted |= dict.fromkeys(new, (now, now + duration, step))
        now += duration
        for g, requests in enumerate(active):
            for r in requests:
                r[1:] = [r[1] + 1, r[2] - 1]
                if r[2] == 0:
                    start, first, at = admitted[r[0]]
                    done[r[0]] = (r[0], g, prompts[r[0]], outputs[r[0]], 0.0, start, first, now, at, step, 0)
            active[g] = [r for r in requests if r[2] > 0]
        step += 1
    return _run(
        steps,
        samples,
        [done[i] for i in sorted(done)],
        now,
        Conditions(
            workers,
            slots,
            workers * slots,
            (workers,),
            (overhead_s,),
            per_token_s,
            "saturated",
            128,
            0,
            policy,
            "oracle" if oracle else "",
            oracle,
        ),
        exact,
    )


def _admit(
    waiting: list[int],
    active: list[list[list[int]]],
    prompts: list[int],
    outputs: list[int],
    slots: int,
    even: bool,
) -> list[int]:
    new: list[int] = []
    while waiting and min(len(a) for a in active) < slots:
        if even:
            chosen = max(waiting[:64], key=lambda i: prompts[i])
            free = [a for a in active if len(a) < slots]
            target = min(free, key=lambda a: sum(r[1] for r in a))
        else:
            chosen, target = waiting[0], min(active, key=len)
        waiting.remove(chosen)
        target.append([chosen, prompts[chosen], outputs[chosen]])
        new.append(chosen)
    return new


def _run(
    steps: list[Row],
    samples: list[tuple[Row, Row]],
    done: list[Row],
    now: float,
    conditions: Conditions,
    exact: bool,
) -> Run:
    step_table = table(StepTable, steps)
    request_table = table(RequestTable, done)
    totals = Totals(
        requests=len(done),
        output_tokens=int(request_table.output_tokens.sum()),
        steps=len(steps),
        decisions=len(steps),
        makespan_s=now,
        load_steps=float(step_table.load_sum.sum()),
        active_steps=int(step_table.running.sum()),
        restarts=0,
        overloaded_steps=int((step_table.running == conditions.slots_total).sum()),
    )
    tally = Tally(conditions, exact=exact)
    tally.add_steps(step_table)
    tally.add_requests(request_table)
    workers = WorkerTable(
        step_table.step,
        step_table.group,
        step_table.start_s,
        step_table.duration_s,
        np.array([s[0] for s in samples], np.float64),
        np.array([s[1] for s in samples], np.int64),
        1,
    )
    digest = digest_of(request_table, now)
    summary = tally.summary(totals)
    return Run(conditions, totals, lambda: digest, lambda: summary, request_table, step_table, workers)


def table(kind: type, rows: list[Row]) -> object:
    """A record table from its rows; columns ending in ``_s``, ``_j`` or holding load are float64, others int64."""
    fields = [f for f in kind.__dataclass_fields__.values() if "None" not in f.type]
    kinds = [np.float64 if f.type == "F8" else np.int64 for f in fields]
    return kind(*(np.array([r[i] for r in rows], k) for i, k in enumerate(kinds)))
