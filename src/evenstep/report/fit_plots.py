"""The picture of a fitted batch-time law: measured over predicted seconds, and the residuals."""

from __future__ import annotations

from typing import Any

from evenstep.cost.fitting import Fit, Fitted
from evenstep.report.figures import COLOURS, picture

#: Points drawn of a longer log, at least; fewer than twice as many.
MOST = 4000


def residual_plot(fitted: Fitted, fit: Fit, kind: str) -> bytes:
    """An ``svg`` or ``png`` picture as bytes: measured over fitted milliseconds, and residuals over the tokens of a batch.

    Residuals are measured minus fitted; they are over KV tokens if the log has no tokens. Of a longer log, `MOST` to twice
    as many points are drawn.
    """
    every, over = max(1, fit.seconds.size // MOST), "tokens" if "tokens" in fitted.columns else "kv"
    seconds, said = fitted.columns["seconds"][::every] * 1e3, fit.seconds[::every] * 1e3
    sizes, residuals = fitted.columns[over][::every], fit.residuals[::every] * 1e3
    ends = [min(said.min(), seconds.min()), max(said.max(), seconds.max())]

    def draw(figure: Any) -> None:
        left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
        left.plot(said, seconds, ".", markersize=2, color=COLOURS[0], alpha=0.5)
        left.plot(ends, ends, color=COLOURS[6], linewidth=1)
        left.set(xlabel=f"{fit.law}, ms", ylabel="measured, ms", title=f"R^2 {fit.r_squared:.4f}")
        right.plot(sizes, residuals, ".", markersize=2, color=COLOURS[1], alpha=0.5)
        right.axhline(0.0, color=COLOURS[6], linewidth=1)
        right.set(xlabel="tokens of the batch" if over == "tokens" else "KV tokens", ylabel="measured - fitted, ms")

    return picture(draw, kind, (9.0, 3.6))
