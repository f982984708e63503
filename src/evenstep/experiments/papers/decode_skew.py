"""The extra time of a decode batch for unequal contexts, beyond the sum of its KV tokens, from measured attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from evenstep.cost.batch import Batch
from evenstep.cost.profile_tables import BUNDLED, rows_of
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers import _profiles as profiles
from evenstep.request import F8

#: Profiles that have a table of unequal decodes of their own.
NAMES = [name for name in profiles.PROFILES if not name.startswith("32B")]
COLUMNS = ("prefill_chunk", "n_decode", "n_long", "kv_short", "kv_long", "equal_us", "unequal_us", "longest_us")
#: If a step takes longer by at most this share, the sum of KV explains its time.
CLOSE = 0.05
#: Least and most decodes of a served batch; and slots of a worker of the default fleet.
SERVED = (32, 128)
SLOTS = 72
#: The two contexts, tokens, that fix the line of steps with equal contexts.
CONTEXTS = (256, 4096)

Table = dict[str, F8]


def _held(rows: Table) -> F8:
    """KV tokens of the decodes of each batch, float64."""
    return rows["n_long"] * rows["kv_long"] + (rows["n_decode"] - rows["n_long"]) * rows["kv_short"]


def _above_mean(rows: Table) -> F8:
    """KV tokens by which the longest decode of each batch is above the batch's mean, float64."""
    return rows["kv_long"] - _held(rows) / rows["n_decode"]


#: Forms of a correction: microseconds or tokens by batch, to be multiplied by one fitted number.
FORMS: dict[str, Callable[[Table], F8]] = {
    "a share of the longest": lambda rows: rows["longest_us"] - rows["equal_us"],
    "longest less mean": _above_mean,
    "that by the root of the decodes": lambda rows: np.sqrt(rows["n_decode"]) * _above_mean(rows),
}


def table(name: str) -> Table:
    """The measured batches of a profile in `PROFILES`, float64 by name of `COLUMNS`, one entry a batch.

    Of `n_decode` decodes, `n_long` have a context of `kv_long` tokens, the others of `kv_short`. Times of one layer's
    attention are in microseconds: `unequal_us` as measured, `equal_us` with equal contexts of the same sum, `longest_us`
    with all as long as the longest.
    """
    return rows_of(BUNDLED / profiles.PROFILES[name] / "skew.csv.gz", COLUMNS)


def fitted(rows: Table, form: str) -> float:
    """The factor of ``FORMS[form]`` that best explains `unequal_us` minus `equal_us`, by least squares without intercept."""
    way, gone = FORMS[form](rows), rows["unequal_us"] - rows["equal_us"]
    return float((way * gone).sum() / (way * way).sum())


def share(rows: Table) -> float:
    """The place of `unequal_us` between `equal_us` (0) and `longest_us` (1), by least squares over the batches."""
    return fitted(rows, "a share of the longest")


def served(rows: Table) -> Table:
    """The batches with 32 to 128 decodes (`SERVED`), as engines serve them; all columns are kept."""
    return _chosen(rows, (rows["n_decode"] >= SERVED[0]) & (rows["n_decode"] <= SERVED[1]))


def _chosen(rows: Table, chosen: Any) -> Table:
    return {name: column[chosen] for name, column in rows.items()}


def beyond(rows: Table, corrected: float = 0.0) -> F8:
    """The extra attention time of each batch over a prediction, as a share of the prediction: 0.1 = 10 % longer.

    The prediction is `equal_us` plus the share `corrected` of the way to `longest_us`; 0 = equal contexts.
    """
    said = rows["equal_us"] + corrected * (rows["longest_us"] - rows["equal_us"])
    return rows["unequal_us"] / said - 1.0


def of_step(name: str, rows: Table, form: str = "") -> F8:
    """The extra time of each batch's whole iteration over one with equal contexts, as a share of the latter.

    With `form`, the correction of that name in `FORMS`, fitted to `rows`, is subtracted first. `name` is the profile's.
    """
    law = profiles.law(name)
    said = fitted(rows, form) * FORMS[form](rows) if form else 0.0
    whole: list[float] = []
    batches = (rows["prefill_chunk"], rows["n_decode"], _held(rows))
    for chunk, n, held in zip(*(column.astype(int).tolist() for column in batches), strict=True):
        kinds = {"decodes": n, "prefill_tokens": chunk, "chunk_squares": chunk * chunk}
        whole.append(law.seconds(Batch(tokens=n + chunk, requests=n + (chunk > 0), **kinds, decode_context=held)))
    return law.layers * (rows["unequal_us"] - rows["equal_us"] - said) * 1e-6 / np.array(whole)


def line(name: str) -> tuple[float, float]:
    """C and t_l of a profile in seconds: a step of 72 decodes without KV, and the addition of each KV token.

    They belong to the line through two batches of equal contexts, of 256 and of 4,096 tokens.
    """
    low, high = (
        profiles.law(name).seconds(Batch(tokens=SLOTS, requests=SLOTS, decodes=SLOTS, decode_context=SLOTS * c, longest=c))
        for c in CONTEXTS
    )
    per_token = (high - low) / (SLOTS * (CONTEXTS[1] - CONTEXTS[0]))
    return low - SLOTS * CONTEXTS[0] * per_token, per_token


def parted(rows: Table) -> dict[str, Table]:
    """The batches that only decode, under ``decodes alone``, and those with a prefill chunk, under ``with a chunk``."""
    mixed = rows["prefill_chunk"] > 0
    return {"decodes alone": _chosen(rows, ~mixed), "with a chunk": _chosen(rows, mixed)}


@ex.experiment("what one long request costs a decode batch", "LLMServingSim's skew tables", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    found = {name: parted(table(name)) for name in setting.pick(NAMES, NAMES[:1])}
    curves = {(name, kind): [own[c] for c in COLUMNS] for name, kinds in found.items() for kind, own in kinds.items()}
    return ex.Findings(
        **ex.told(one for name, kinds in found.items() for kind, own in kinds.items() for one in _told(name, kind, own)),
        constants=ex.constants(f"""
            batches | 2 to 256 decodes, 0.4 to 90 % of them 1.5 to 16 times as long as the rest, up to 16,384 tokens | the
              grid that was measured: far more uneven than served batches usually are
            with a chunk | of 64 or 512 tokens without context | a part of the measured grid is bundled
            one call | a third of the table's time | equal contexts take three times there what they do in the attention
              table
            close | the step takes at most {100 * CLOSE:.0f} % longer | ours
        """),
        remark="there is no number of a paper: BF-IO's dt = C + t_l L* and WAIT's eq. 1 take the sum of KV for granted. The "
        "share is one number for the whole grid; half of the batches are off by less than the row 'attention, median'",
        stands_in="nothing: measured attention of one layer, as often as the model has layers, in an iteration of measured "
        "dense layers",
        data=ex.curves(curves, ["profile"], COLUMNS),
        draw=lambda figure: _draw(figure, found),
        size=(9, 3.0 * len(found)),
        intervals="The tables are measured once: no intervals.",
    )


def _figures(name: str, own: Table) -> dict[str, tuple[str, float]]:
    """(unit, value) of each quantity for the batches of a profile."""
    alpha = share(own)
    plain, better = beyond(own), np.abs(beyond(own, alpha))
    step = of_step(name, own)
    return {
        "share of the longest": ("", alpha),
        "attention, median": ("% longer", 100 * float(np.median(plain))),
        "attention, p95": ("% longer", 100 * float(np.percentile(plain, 95))),
        "attention, p95 off with the share": ("%", 100 * float(np.percentile(better, 95))),
        "step, median": ("% longer", 100 * float(np.median(step))),
        "step, p95": ("% longer", 100 * float(np.percentile(step, 95))),
    }


def _law_figures(name: str, own: Table) -> dict[str, tuple[str, float]]:
    """(unit, value) of quantities for the step-time law `unequal`: errors of each form of correction, and C and t_l."""
    overhead_s, per_token_s = line(name)
    figures = {"step off, mean": ("%", 100 * float(np.abs(of_step(name, own)).mean()))}
    for form in FORMS:
        off = 100 * np.abs(of_step(name, own, form))
        figures[f"step off, mean, with {form}"] = ("%", float(off.mean()))
        figures[f"step off, p95, with {form}"] = ("%", float(np.percentile(off, 95)))
    return figures | {
        f"share of the longest, {SERVED[0]} to {SERVED[1]} decodes": ("", share(served(own))),
        f"C, {SLOTS} decodes": ("ms", 1e3 * overhead_s),
        f"t_l, {SLOTS} decodes": ("ns", 1e9 * per_token_s),
    }


def _told(name: str, kind: str, own: Table) -> ex.Told:
    figures = _figures(name, own) | ({} if kind == "with a chunk" else _law_figures(name, own))
    yield from (ex.row(f"{name}: {kind}", quantity, unit, [value]) for quantity, (unit, value) in figures.items())
    step = of_step(name, own)
    close = float(np.mean(step <= CLOSE))
    says = f"{name}, {kind}: a step depends on the sum of KV alone within {100 * CLOSE:.0f} % in 19 of 20 batches"
    seen = f"in {100 * close:.0f} % of them; the worst takes {100 * float(step.max()):.0f} % longer"
    yield ex.Claim(says, close >= 0.95, seen)


def _draw(figure: ex.Figure, found: dict[str, dict[str, Table]]) -> None:
    for i, (name, kinds) in enumerate(found.items()):
        for j, (kind, own) in enumerate(kinds.items()):
            axes = figure.add_subplot(len(found), 2, 2 * i + j + 1)
            uneven = own["kv_long"] / own["kv_short"]
            step = 100 * of_step(name, own)
            for k, ratio in enumerate(np.unique(uneven)):
                chosen = uneven == ratio
                places = own["n_decode"][chosen] * 2 ** (0.1 * (k - 2))
                axes.plot(places, step[chosen], ".", markersize=3, color=ex.COLOURS[k], label=f"{ratio:g} times")
            axes.set_xscale("log", base=2)
            axes.axhline(0, color=ex.COLOURS[6], linewidth=0.8)
            axes.set(title=f"{name}: {kind}", xlabel="decodes of the batch", ylabel="step longer, %")
    figure.axes[0].legend(frameon=False, title="longest", fontsize=7)
