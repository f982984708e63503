"""Interval scheduling's instances: the lower bound of Theorem 3.4, the schedules of Example 8.2, the lengths of Fig. 4."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np

from evenstep import names, streams
from evenstep.cost.unit import Unit
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.interval._interval import LAWS_SAID, STANDS_IN, lengths
from evenstep.measure.engine_records import EngineRun
from evenstep.request import I8, Trace
from evenstep.scheduling.view import SchedulingPolicy
from evenstep.sim.engine.simulation import Engine, simulate_engine
from evenstep.theory.intervals import a_max_on_instance, a_max_ratio
from evenstep.theory.packing import is_delayed, occupied, optimally_packed, same_order, total_latency

#: Theorem 3.4: the lower length, and values of alpha, from which the upper lengths follow.
SHORT, ALPHAS = 4, (1 / 2, 1 / 4, 1 / 16)
#: a / b as printed, and the a / b at which the proof's own quotient is about largest for a small alpha.
MIXES: Mapping[str, Callable[[float], float]] = {
    "a/b = sqrt(alpha)": math.sqrt,
    "a/b = 1 + sqrt 2": lambda alpha: 1 + math.sqrt(2),
}
#: Example 8.2: when each request starts.
EXAMPLE = {"I1": (0, 2, 0, 3), "I2": (1, 1, 0, 3), "I3": (0, 0, 0, 2)}
MEMORY, OUTPUT = 7, np.array([1, 2, 3, 4])
#: Proposition 8.4 on random instances: requests, longest output, memory, beta.
MANY, LONGEST, ROOM, BETA = 12, 20, 80, 0.5
#: Fig. 4: mean, median and variance the paper prints.
FIG4 = {"prompt": (41, 11, 4_961), "output": (85, 43, 9_702)}
#: Values by (part, case), one a replicate.
Values = dict[tuple[str, str], list[float]]


def engine_run(
    policy: SchedulingPolicy | str,
    output: I8,
    bounds: tuple[I8, I8],
    memory: int,
    seed: int,
    *,
    prompt: int = 1,
    holds: bool = True,
    request_class: I8 | None = None,
) -> EngineRun:
    """Run requests that are all present at the start, with one unit of time an iteration.

    Args:
        policy: the policy, or its spec.
        output, bounds: int64[N] each, output lengths and their believed bounds.
        memory: KV tokens.
        seed: key of the policy's draws.
        prompt: tokens of each prompt, at least 1.
        holds: True if memory counts the token produced last. If False, prompts of 1 are as good as 0 (s = 0).
        request_class: int64[N], or None for one class.
    """
    prompts, arrival_s = np.full_like(output, prompt), np.zeros(output.size)
    trace = Trace(prompts, output, arrival_s=arrival_s, request_class=request_class, synthetic=True)
    engine = Engine(token_budget=0, batch_limit=0, kv_tokens=memory, overflow="restart", hold_produced=holds)
    built = names.build("scheduling", policy) if isinstance(policy, str) else policy
    return simulate_engine(trace, built, engine=engine, batch_time=Unit(), bounds=bounds, seed=seed)


def started(policy: str, output: I8, low: I8, high: I8, memory: int, seed: int, *, holds: bool = True) -> I8:
    """int64[N], iteration in which each request starts, the first start being 0; prompts of one token (`engine_run`)."""
    first = engine_run(policy, output, (low, high), memory, seed, holds=holds).requests.first_iteration
    return first - int(first.min())


def lower_bound(alpha: float, mix: float, batches: int, seed: int) -> tuple[float, float]:
    """(A_max's, H-SF's) total latency in iterations on the instance in the proof of Theorem 3.4.

    `alpha` is lower over upper length, `mix` is a / b, and `batches` is b, the batches of long requests.
    """
    long = round(SHORT / alpha)
    output = np.repeat([SHORT, long], [round(mix * batches) * long, batches * SHORT])
    low, high = np.full_like(output, SHORT), np.full_like(output, long)
    memory = SHORT * long
    most = started("a-max", output, low, high, memory, seed, holds=False)
    best = started("h-sf", output, output, output, memory, seed, holds=False)
    return float(total_latency(most, output)), float(total_latency(best, output))


@ex.experiment(
    "lower bound, packed schedules and length laws", "Interval scheduling Theorem 3.4, Ex. 8.2, Fig. 4", most_traces=0
)
def experiment(setting: ex.Setting) -> ex.Findings:
    batches = setting.pick(20, 5)
    values: Values = {}
    return ex.Findings(
        **ex.told(_theorem(setting, batches, values), _example(), _scaled(setting, values), _laws(setting, values)),
        constants=ex.constants(f"""
            Theorem 3.4 | l = {SHORT}, b = {batches}, M = l u, s = 0 | the paper: a and b large enough
            alpha | {", ".join(f"{a:g}" for a in ALPHAS)} | the paper names none
            Proposition 8.4 | {MANY} requests of 1..{LONGEST} tokens, prompts of 1, M = {ROOM}, beta = {BETA:g} | the paper
              names no instance; small ones, on which packing is checked request by request
            lengths | {LAWS_SAID} | fitted to what the paper prints of them; its sample cannot be redistributed
        """),
        remark="the quotient in the proof of Theorem 3.4 is not the bound it is set equal to: at the a/b it names, and at "
        "any other, it is below it; and A_max admits by memory to the end, so that it runs more at once than the "
        "parallel workers of the proof. Of Example 8.2's schedules only I3 is optimally packed; the paper does not "
        "say so of the others. A_random stops at the first request that does not fit: a later, smaller one could "
        "move. Proposition 8.4 takes requests for a fluid: what is left of less memory wastes more of it",
        stands_in=f"{STANDS_IN}, for Fig. 4 only; the instances are the paper's",
        data=ex.long_values(values, ("part", "case"), "value"),
        draw=lambda figure: _draw(figure, values, setting),
        size=(11.0, 3.6),
        intervals="One replicate: no intervals but those of Proposition 8.4, over instances."
        if setting.replicates == 1
        else f"± is half a 95 % t-interval over {setting.replicates} replicates, for Proposition 8.4 over instances.",
    )


def _theorem(setting: ex.Setting, batches: int, values: Values) -> ex.Told:
    """Theorem 3.4; the measured ratios go into `values`."""
    for alpha, (says, mix) in itertools.product(ALPHAS, MIXES.items()):
        pairs = [lower_bound(alpha, mix(alpha), batches, setting.seed + r) for r in range(setting.replicates)]
        own = ex.ratio([most for most, _ in pairs], [best for _, best in pairs])
        case = f"alpha = {alpha:g}, {says}"
        values["Theorem 3.4", case] = [most / best for most, best in pairs]
        bound, proof = a_max_ratio(alpha)[0], a_max_on_instance(alpha, mix(alpha))
        long, a = round(SHORT / alpha), round(mix(alpha) * batches)
        workers = (a * long + batches * SHORT) * long * (a + batches) / 2
        yield ex.Row(case, "latency of A_max over H-SF", "", bound, own)
        yield ex.row(case, "the same, by the proof's quotient", "", [proof], bound)
        yield ex.row(case, "latency of A_max over that of the proof's workers", "", [m / workers for m, _ in pairs], 1.0)
        if mix is math.sqrt:
            seen = f"{ex.mean_text(own)}; the proof's quotient is {proof:.4g}"
            yield ex.limited(f"{case}: A_max is at least {bound:.4g} times H-SF", own, bound, 1, seen)


def _example() -> ex.Told:
    """Example 8.2."""
    schedules = {name: np.array(starts) for name, starts in EXAMPLE.items()}
    every = [np.array(s) for s in itertools.product(range(5), repeat=4)]
    prompt = np.ones_like(OUTPUT)
    packed = {name: optimally_packed(s, prompt, OUTPUT, MEMORY) for name, s in schedules.items()}
    totals = {name: total_latency(s, OUTPUT) for name, s in schedules.items()}
    least = min(total_latency(s, OUTPUT) for s in every if occupied(s, prompt, OUTPUT).max() <= MEMORY)
    hindsight = started("h-sf", OUTPUT, OUTPUT, OUTPUT, MEMORY, 0)
    orders = {f"{a}, {b}": same_order(schedules[a], schedules[b]) for a, b in itertools.combinations(EXAMPLE, 2)}
    delays = {name: is_delayed(schedules[name], schedules["I3"]) for name in ("I1", "I2")}
    yield from (ex.row(f"Example 8.2, {n}", "total latency", "iterations", [total]) for n, total in totals.items())
    yield ex.Claim("Example 8.2: the three keep one order, pair by pair", all(orders.values()), _said(orders))
    yield ex.Claim("Example 8.2: I1 and I2 are delayed against I3", all(delays.values()), _said(delays))
    yield ex.Claim("Example 8.2: I3 is optimally packed (Definition 8.3)", packed["I3"], _said(packed))
    yield ex.Claim("Example 8.2: I3 has the least total latency of all schedules", totals["I3"] == least, f"{least}")
    is_same = bool((hindsight == schedules["I3"]).all())
    yield ex.Claim("Example 8.2: I3 is what H-SF does", is_same, str(hindsight.tolist()))


def _scaled(setting: ex.Setting, values: Values) -> ex.Told:
    """Proposition 8.4 on random instances; the measured ratios go into `values`."""
    packed: list[bool] = []
    both: list[bool] = []
    found: list[float] = []
    is_one_order = True
    draws = setting.pick(200, 20)
    for draw in range(draws):
        u = streams.uniform(setting.seed, "interval-packed", np.arange(MANY), draw=draw)
        output = 1 + np.floor(u * LONGEST).astype(np.int64)
        specs = ("a-random", f"a-random:memory_scale={BETA}")
        whole, part = (started(spec, output, output, output, ROOM, setting.seed + draw) for spec in specs)
        packed.append(optimally_packed(whole, np.ones_like(output), output, ROOM))
        both.append(packed[-1] and optimally_packed(part, np.ones_like(output), output, round(BETA * ROOM)))
        is_one_order &= same_order(whole, part)
        found.append(total_latency(part, output) / total_latency(whole, output))
    values["Proposition 8.4", f"beta = {BETA:g}"] = found
    case = f"A_random(M) and A_random({BETA:g} M)"
    kept = [value for value, is_packed in zip(found, both, strict=True) if is_packed]
    seen = f"at most {max(found):.4g}, above {1 / BETA:g} in {sum(f > 1 / BETA for f in found)} of {draws} instances"
    yield ex.row(case, "latency with less memory over latency", "", found, f"<= {1 / BETA:g}")
    yield ex.row("A_random(M)", "share of optimally packed schedules", "", [float(p) for p in packed], 1.0)
    yield ex.Claim(f"{case} keep one order", is_one_order, f"{draws} instances")
    yield ex.Claim("A_random's schedules are optimally packed", all(packed), f"{sum(packed)} of {draws} instances")
    says = f"memory of {BETA:g} M costs at most {1 / BETA:g} times the latency (Proposition 8.4)"
    told = f"at most {max(kept, default=math.nan):.4g} in the {len(kept)} instances in which both are optimally packed"
    yield ex.Claim(says, max(kept) <= 1 / BETA if kept else None, told)
    yield ex.Claim("the same of every A_random, as Theorem 3.3 uses it", max(found) <= 1 / BETA, seen)


def _laws(setting: ex.Setting, values: Values) -> ex.Told:
    """The stand-in lengths' moments next to those of Fig. 4; they go into `values`, too."""
    drawn = [lengths(2_000, setting.seed, r) for r in range(setting.replicates)]
    for index, (name, printed) in enumerate(FIG4.items()):
        for paper, what, of in zip(printed, ("mean", "median", "variance"), (np.mean, np.median, np.var), strict=True):
            own = [float(of(pair[index])) for pair in drawn]
            values["Fig. 4", f"{name}, {what}"] = own
            unit = "tokens^2" if what == "variance" else "tokens"
            yield ex.row(f"Fig. 4, {name} of the stand-in", what, unit, own, paper)


def _said(which: Mapping[str, bool]) -> str:
    return "; ".join(f"{name}: {'yes' if is_so else 'no'}" for name, is_so in which.items())


def _draw(figure: ex.Figure, values: Values, setting: ex.Setting) -> None:
    panels = figure.subplots(1, 3)
    panels[0].plot(ALPHAS, [a_max_ratio(a)[0] for a in ALPHAS], "k--", label="Theorem 3.4")
    for colour, (says, mix) in zip(ex.COLOURS, MIXES.items(), strict=False):
        own = [np.mean(values["Theorem 3.4", f"alpha = {a:g}, {says}"]) for a in ALPHAS]
        panels[0].plot(ALPHAS, own, color=colour, marker=".", label=says)
        proof = [a_max_on_instance(a, mix(a)) for a in ALPHAS]
        panels[0].plot(ALPHAS, proof, color=colour, ls=":", label=f"{says}, by the proof")
    panels[0].set(xscale="log", yscale="log", xlabel="alpha", title="A_max over H-SF")
    panels[0].legend(frameon=False, fontsize=7)
    for axes, name, drawn in zip(panels[1:], FIG4, lengths(2_000, setting.seed, 0), strict=True):
        axes.hist(drawn, bins=40, color=ex.COLOURS[0])
        axes.set(title=f"{name} tokens (stand-in)", ylabel="requests")
