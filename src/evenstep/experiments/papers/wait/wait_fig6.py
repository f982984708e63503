"""WAIT Fig. 6: the worked example of Nested WAIT as an exact schedule."""

from __future__ import annotations

import math

import numpy as np

from evenstep.cost.unit import Unit
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.throughput._throughput import Watched
from evenstep.request import Trace
from evenstep.scheduling.policies.nested_wait import NestedWait
from evenstep.sim.engine.simulation import Engine, simulate_engine

ARRIVAL_S = (0, 0, 1, 5, 5, 7, 7, 11, 14, 14)
#: Tokens of P1 .. P10, from their completions in the table; P7, P8 and P10 may be longer.
OUTPUT = (1, 1, 2, 1, 2, 3, 2, 2, 1, 2)
#: When each batch of the table starts, and its prompts.
TABLE = {1: (1, 2, 3), 7: (4, 5, 6), 14: (3, 5, 6, 7, 8, 9)}


def batches() -> dict[int, tuple[int, ...]]:
    """The batches of the example up to 14.5 s: start in seconds -> numbers of its prompts, from 1, ascending."""
    trace = Trace(np.ones(len(OUTPUT), np.int64), np.array(OUTPUT), arrival_s=np.array(ARRIVAL_S, float), synthetic=True)
    watched = Watched(NestedWait((3, 3), (1,), (), math.inf))
    engine = Engine(token_budget=0, batch_limit=0)
    done = simulate_engine(trace, watched, engine=engine, batch_time=Unit(), until_s=14.5)
    assert done.iterations is not None
    held = [batch for batch in watched.batches if batch]
    starts = done.iterations.start_s.tolist()
    return {int(s): tuple(sorted(k + 1 for k in batch)) for s, batch in zip(starts, held, strict=True)}


@ex.experiment("the worked example of Nested WAIT", "WAIT Fig. 6", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    found = batches()
    return ex.Findings(
        **ex.told(_told(found)),
        constants=ex.constants(f"""
            thresholds | {(3, 3)} | the paper's
            stages | one a segment, the second has more | the table completes P1 after one and keeps P6 in segment 2 after
              one of its iterations
            max_hold_s | none | the paper has none
        """),
        remark="the schedule is the table's; its text calls for four prompts P4 .. P7 at t = 7, of which three are taken",
        stands_in="nothing: the instance is the paper's",
        data=ex.curves({start: [who] for start, who in found.items()}, "start_s", ["prompt"]),
        draw=lambda figure: _draw(figure, found),
        size=(6.0, 3.4),
        intervals="nothing is drawn at random.",
    )


def _told(found: dict[int, tuple[int, ...]]) -> ex.Told:
    for start, who in TABLE.items():
        own = found.get(start, ())
        yield ex.row(f"t = {start}", "prompts in the batch", "", [len(own)], len(who))
        yield ex.Claim(f"at t = {start} runs {_named(who)}", own == who, _named(own))
    yield ex.Claim("nothing else runs until t = 14", set(found) == set(TABLE), ", ".join(f"t = {s}" for s in found))


def _named(who: tuple[int, ...]) -> str:
    return " ".join(f"P{k}" for k in who)


def _draw(figure: ex.Figure, found: dict[int, tuple[int, ...]]) -> None:
    axes = figure.subplots()
    for start, who in found.items():
        axes.barh([f"P{k}" for k in who], [1.0] * len(who), left=start, color="tab:blue")
    axes.set_xlabel("s")
    axes.invert_yaxis()
