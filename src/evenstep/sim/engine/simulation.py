"""The engine simulator: one batching server, iteration by iteration.

Order of events of an iteration, fixed so that results repeat to the last bit:

1. requests whose arrival is at most the clock (with ``schedules_ahead``: the start of the last iteration) join the queue,
   sorted by the policy's `order` (ties: trace row);
2. the policy sees the engine and answers. Evictions come first, in the order of admission: an evicted request gives up its
   memory and joins the queue again (`overflow` says what it keeps);
3. the answer is checked against budget, batch limit, memory and resident limit; requests picked from the queue are admitted,
   in its order;
4. the iteration lasts as long as the batch-time law says, plus `overhead_s` and that of moved memory; the clock advances;
5. every request of the batch has run its tokens. A request that decoded, or completed a prefill with
   ``first_token="prefill"``, has produced a token. One that produced its last token is finished and frees its memory.

An empty batch is not an iteration: the clock goes to the next arrival, to the policy's `wake_s` or to `until_s`, whichever
is first. If there is no such time and requests are left, the policy holds forever: an error.

**Tokens.** A request of prompt s and output o runs s prefill tokens, in one chunk or several. With ``first_token="prefill"``
(real engines, Interval scheduling) the iteration that ends its prefill also produces its first token, and o - 1 decodes
follow; with ``decode`` (WAIT, Throughput-optimal) o decodes follow. After recompute its prefill is s plus what it produced,
less what `keeps_evicted` saved.

**Memory.** A request holds the KV of the tokens it has computed, in whole blocks. With ``hold_produced`` it also holds that
of its last produced token, which real engines compute one iteration later. Then it holds s + o in its last iteration, as
Interval scheduling counts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from evenstep.config.number import check_integers
from evenstep.cost.batch import BatchTime, check_law
from evenstep.errors import InputError, check_known, check_range
from evenstep.request import I8, Trace
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.sim.engine.settings import Engine

if TYPE_CHECKING:
    from evenstep.measure.engine_records import EngineRun
    from evenstep.predict.intervals import Quantiles


def simulate_engine(
    trace: Trace,
    policy: SchedulingPolicy,
    *,
    engine: Engine | None = None,
    batch_time: BatchTime | None = None,
    bounds: tuple[I8, I8] | Quantiles | None = None,
    seed: int = 0,
    records: bool = True,
    door: Literal["auto", "plain", "compiled"] = "auto",
    until_s: float = math.inf,
    name: str = "",
) -> EngineRun:
    """Run a trace through one engine under a scheduling policy; this module's docstring gives the order of events.

    Args:
        trace: the requests; a trace without times arrives at once.
        policy: an object with `form_batch(view)`, with a compiled rule or without.
        engine: the server; default `Engine()`.
        batch_time: seconds of an iteration; default `TokenBudget()`.
        bounds: believed lowest and highest output length of each request, int64[N] each, or a predictor's quantiles, which
            are asked when a request arrives; default the trace's columns. 0 and 0 = not known. Bounds that miss the true
            length are counted, and believed until the output grows beyond them. A policy of hindsight (`h-sf`, `a-random`)
            is shown the true lengths in their place.
        seed: key of every random draw of the policy.
        records: keep the table of iterations. Requests and totals are always kept.
        door: ``compiled`` runs the policy's kernel inside the loop, ``plain`` calls its `form_batch`; ``auto`` takes the
            kernel where there is one. Both give the same digest.
        until_s: seconds on the trace's clock: stop before the first iteration that would start at this time or later, and
            leave the other requests unfinished; inf = run all to completion.
        name: the policy's name for tables and reports.

    Returns:
        The run: tables, totals, every metric, and the digest.

    Raises:
        InputError: a trace or option that does not fit, for instance a prompt larger than the memory.
        PolicyError: the policy broke its contract, raised, or holds for ever.
    """
    from evenstep.cost.token_budget import TokenBudget
    from evenstep.sim.engine.input import shown
    from evenstep.sim.engine.state import Task

    label = name or type(policy).__name__
    if isinstance(policy, type) or not callable(getattr(policy, "form_batch", None)):
        raise InputError(label, "policy", policy, "an object with a method form_batch(view)")
    law: Any = batch_time or TokenBudget()
    check_law("simulate_engine", law)
    check_integers("simulate_engine", 0, seed=seed)
    given: list[tuple[str, Any, type]] = [("trace", trace, Trace), ("engine", engine or Engine(), Engine)]
    for field, value, kind in given:
        if not isinstance(value, kind):
            raise InputError("simulate_engine", field, value, f"an object of the class {kind.__name__}")
    check_known("simulate_engine", "door", door, ("auto", "plain", "compiled"))
    check_range("simulate_engine", "a number of seconds > 0", above=0, until_s=until_s)
    task = Task(trace, policy, engine or Engine(), law, shown(trace, policy, bounds), seed, records, door, until_s, label)
    if task.engine.data_parallel > 1:
        from evenstep.sim.engine.ranks import run
    else:
        from evenstep.sim.engine.host import run
    return run(task)
