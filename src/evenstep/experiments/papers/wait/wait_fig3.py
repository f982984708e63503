"""WAIT Fig. 3: iteration time is affine in the tokens that the batch holds."""

from __future__ import annotations

import numpy as np

from evenstep.cost.batch import Batch
from evenstep.cost.fitting import Fit, fit_laws
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers import _profiles as profiles
from evenstep.request import F8

#: R^2 from which on we call a fit good; the paper shows a figure and prints none.
GOOD = 0.98
CONTEXTS = tuple(range(128, 4097, 128))
REQUESTS = (16, 64)
PROMPTS = tuple(range(128, 2049, 64))


@ex.experiment("iteration time affine in the tokens held", "WAIT eq. 1, Fig. 3", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    names = profiles.shown(setting)
    kinds: dict[str, dict[str, tuple[F8, Fit]]] = {}
    for name in names:
        served = profiles.served(name, profiles.requests(setting, 0), 2048, setting.pick(120.0, 10.0))
        cases = {f"{n} decodes, contexts grow": _decodes(name, [(n, context) for context in CONTEXTS]) for n in REQUESTS}
        cases["one prefill, longer and longer"] = _prefills(name)
        cases["decodes, their number grows"] = _decodes(name, [(n, 1024) for n in range(1, 129)])
        cases["a served run, all iterations"] = served.kv_batch.astype(np.float64), served.seconds
        kinds[name] = {kind: (kv, fit_laws({"kv": kv, "seconds": s}).fits[0]) for kind, (kv, s) in cases.items()}
    flat = {(name, kind): (kv, fit) for name, own in kinds.items() for kind, (kv, fit) in own.items()}
    curves = {key: (kv, fit.seconds, fit.residuals) for key, (kv, fit) in flat.items()}
    return ex.Findings(
        **ex.told(_told(kinds)),
        constants=ex.constants(f"""
            contexts | {CONTEXTS[0]} to {CONTEXTS[-1]} | the paper says 'different number of tokens in the batch', not
              which; every reading has its row
            good | R^2 >= {GOOD} | the paper prints none
        """)
        + profiles.constants(setting),
        remark="with one d0 and d1, eq. 1 fits while one thing grows; not a served run, where a prefill token costs far "
        "more than a KV token: most of an iteration is decided by the tokens it runs, not by those it holds",
        stands_in=profiles.STANDS_IN,
        data=ex.curves(curves, ("profile", "case"), ("kv_tokens", "fitted_s", "residual_s")),
        draw=lambda figure: _draw(figure, kinds),
        size=(10, 2.6 * len(names)),
        intervals="The tables are deterministic: no intervals.",
    )


def _decodes(name: str, batches: list[tuple[int, int]]) -> tuple[F8, F8]:
    """(KV tokens, seconds) of batches, which are (number of decodes, context of each)."""
    law = profiles.law(name)
    seconds = [
        law.seconds(Batch(tokens=n, requests=n, decodes=n, kv=n * (k + 1), decode_context=n * k, longest=k))
        for n, k in batches
    ]
    return np.array([float(n * (k + 1)) for n, k in batches]), np.array(seconds)


def _prefills(name: str) -> tuple[F8, F8]:
    """(KV tokens, seconds) of batches of one prefill, for each length of `PROMPTS`."""
    law = profiles.law(name)
    seconds = [law.seconds(Batch(tokens=s, requests=1, prefill_tokens=s, kv=s, chunk_squares=s * s)) for s in PROMPTS]
    return np.array(PROMPTS, np.float64), np.array(seconds)


def _told(kinds: dict[str, dict[str, tuple[F8, Fit]]]) -> ex.Told:
    for name, own in kinds.items():
        for kind, (_, fit) in own.items():
            yield ex.row(f"{name}: {kind}", "R^2", "", [fit.r_squared])
            yield ex.row(f"{name}: {kind}", "d0", "ms", [1e3 * fit.options["d0_s"]])
            yield ex.row(f"{name}: {kind}", "d1", "us a KV token", [1e6 * fit.options["d1_s"]])
    for kind in next(iter(kinds.values())):
        explained = {name: own[kind][1].r_squared for name, own in kinds.items()}
        seen = ex.listed(f"{name} {one:.3f}" for name, one in explained.items())
        holds = all(one >= GOOD for one in explained.values())
        yield ex.Claim(f"iteration time is affine in the tokens held ({kind})", holds, f"R^2 {seen}")


def _draw(figure: ex.Figure, kinds: dict[str, dict[str, tuple[F8, Fit]]]) -> None:
    wide = len(next(iter(kinds.values())))
    for i, (name, own) in enumerate(kinds.items()):
        for j, (kind, (kv, fit)) in enumerate(own.items()):
            axes = figure.add_subplot(len(kinds), wide, i * wide + j + 1)
            axes.plot(kv, (fit.seconds + fit.residuals) * 1e3, ".", markersize=2, color=ex.COLOURS[0], alpha=0.5)
            axes.plot(np.sort(kv), np.sort(fit.seconds) * 1e3, color=ex.COLOURS[1])
            axes.set_title(kind if i == 0 else f"R^2 {fit.r_squared:.3f}", fontsize=7)
            axes.set_ylabel(f"{name}, ms" if j == 0 else "")
