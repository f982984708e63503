"""WAIT sec. 7.2, Figs. 16 to 18: the memory Nested WAIT needs, by its number of segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from evenstep.experiments import vocabulary as ex
from evenstep.theory.fluid import Types
from evenstep.theory.segments import Design, designs, least_kv_tokens

TYPES, PROMPT = 500, 62
#: Figure, requests a second, delta and horizon in seconds of each of the paper's panels.
PANELS = (
    (16, 50.0, 0.1, 200.0),
    (16, 50.0, 1e-5, 200.0),
    (17, 500.0, 0.1, 200.0),
    (17, 500.0, 1e-5, 200.0),
    (18, 50.0, 0.001, 20.0),
    (18, 50.0, 0.001, 2_000.0),
)
RATES = (50.0, 500.0)
COUNTS = (1, 2, 5, 10, 20, 25, 50, 100, 250, 500)
#: The number the paper says is enough.
ENOUGH = 10
D0_S, D1_S = 0.01, 4e-8
#: Each further token is reached with this probability; the mean of 1..500 is then 156 tokens.
GOES_ON = 0.995

#: Designs by panel, in order of L.
Found = Mapping[tuple[int, float, float, float], Sequence[Design]]


def types_at(rate: float) -> Types:
    """500 types, of 1 to 500 output tokens, with a total of `rate` requests a second, in proportion to a geometric law."""
    chance = GOES_ON ** np.arange(TYPES)
    return Types((rate * chance / chance.sum()).tolist(), [PROMPT] * TYPES, list(range(1, TYPES + 1)), D0_S, D1_S)


@ex.experiment("Nested WAIT's memory by its number of segments", "WAIT sec. 7.2, Figs. 16-18", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    counts = setting.pick(COUNTS, (1, 5, 10, 50, 500))
    found: Found = {
        panel: designs(types_at(panel[1]), counts, iterations=panel[3] / D0_S, delta=panel[2]) for panel in PANELS
    }
    flat: list[Design] = ex.flat(found)
    return ex.Findings(
        **ex.told(_told(found, counts)),
        constants=ex.constants(f"""
            types | {TYPES}, outputs 1..{TYPES}, prompts of {PROMPT} tokens | the paper's
            L | {ex.listed(counts)} | ours
            rates of the types | geometric, {GOES_ON:g} a token | stands in for the paper's Fig. 15
            batch time | d0 = {D0_S:g} s, d1 = {D1_S:g} s a KV token | the paper prints neither; the law's usual d1 would be
              too slow for 500 requests a second
            S | T / {D0_S:g} s iterations | empty ones all the time, the most there can be
            thresholds | least integers of eq. 14, at the best of seven slacks | the paper does not say which
        """),
        remark="a threshold is a whole number, at least one: at 50 requests a second one request a stage is enough however "
        "many segments there are, so a full batch never shrinks and each further segment only adds the queue at its head. "
        "Nor does the horizon matter there: with equal thresholds no segment queues more than one feed (Fig. 18). "
        "Few segments cannot keep up at 500: everybody counts as if it stayed to its segment's end",
        stands_in="a geometric law of output lengths for the frequencies of the paper's data",
        data={
            **ex.grouped(found, ("figure", "requests_per_s", "delta", "horizon_s")),
            "segments": [one.segments for one in flat],
            "full_batch_kv_tokens": [one.solved.kv_tokens for one in flat],
            "queues_kv_tokens": [one.queue_kv_tokens for one in flat],
            "expected_latency_s": [one.latency_s for one in flat],
        },
        draw=lambda figure: _draw(figure, found),
        size=(8.5, 3.6),
    )


def said(panel: tuple[int, float, float, float]) -> str:
    """A panel of `PANELS` in words, for tables: its rate, delta and horizon; the figure is left out."""
    return "{1:g} requests/s, delta {2:g}, T = {3:g} s".format(*panel)


def _told(found: Found, counts: Sequence[int]) -> ex.Told:
    for panel, tried in found.items():
        for one in tried:
            case = f"{said(panel)}, L = {one.segments}"
            yield ex.row(case, "memory that suffices", "KV tokens", [one.solved.enough_kv_tokens])
            yield ex.row(case, "of it a full batch", "KV tokens", [one.solved.kv_tokens])
            yield ex.row(case, "expected latency", "s", [one.latency_s])
        needs = {one.segments: one.solved.enough_kv_tokens for one in tried}
        best = min(tried, key=lambda one: one.solved.enough_kv_tokens)
        least, where = needs[best.segments], f"at {said(panel)}"
        few = [count for count in counts if count not in needs]
        seen = f"least with L = {best.segments}: {least:,.0f}"
        seen += f"; L = {', '.join(map(str, few))} cannot keep up" if few else ""
        share, over = best.solved.kv_tokens / least, needs[ENOUGH] / least - 1
        u_shaped = counts[0] < best.segments < counts[-1]
        yield ex.Claim(f"memory is U-shaped in L {where} (Fig. {panel[0]})", u_shaped, seen)
        yield ex.Claim(f"with the best L most of it is the full batch {where}", share > 0.5, f"{share:.0%}")
        yield ex.Claim(f"L = {ENOUGH} needs at most a tenth more than the best L {where}", over <= 0.1, f"{over:+.1%}")
    for rate in RATES:
        least = [least_kv_tokens(types_at(rate))]
        yield ex.row(f"{rate:g} requests/s", "fluid equilibrium, types known", "KV tokens", least)


def _draw(figure: ex.Figure, found: Found) -> None:
    panels = figure.subplots(1, len(RATES))
    for axes, rate in zip(panels, RATES, strict=True):
        own = {panel: tried for panel, tried in found.items() if panel[1] == rate}
        for colour, (panel, tried) in zip(ex.COLOURS, own.items(), strict=False):
            x = [one.segments for one in tried]
            enough, full = zip(*[(one.solved.enough_kv_tokens, one.solved.kv_tokens) for one in tried], strict=True)
            label = f"enough, delta {panel[2]:g}, T = {panel[3]:g} s"
            axes.plot(x, enough, color=colour, marker=".", lw=1.3, label=label)
            axes.plot(x, full, color=colour, lw=1.0, ls=":", label="of it a full batch")
        axes.set(xscale="log", yscale="log")
        ex.labelled(axes, "segments L", title=f"{rate:g} requests/s")
    panels[0].set_ylabel("KV tokens")
    panels[1].legend(frameon=False, fontsize=7)
