"""The picture of a fitted batch-time law: predicted against measured seconds, and the residuals."""

from __future__ import annotations

from typing import Any

from evenstep.cost.fitting import Fit, Fitted
from evenstep.report.figures import COLOURS, picture

#: Points drawn at most.
MOST = 4000


def residual_plot(fitted: Fitted, fit: Fit, kind: str) -> bytes:
    """The bytes of a picture: measured against fitted milliseconds, and the residuals over tokens of the batch.

    Residuals are measured less fitted, over KV tokens if the log has no tokens. At most about `MOST` points are drawn.

    Args:
        fitted, fit: the log's columns, and the law shown, fitted to them.
        kind: ``svg`` or ``png``.
    """
    return picture(lambda figure: _draw(figure, fitted, fit), kind, (9.0, 3.6))


def _draw(figure: Any, fitted: Fitted, fit: Fit) -> None:
    every = max(1, fit.seconds.size // MOST)
    seconds, said = fitted.columns["seconds"][::every] * 1e3, fit.seconds[::every] * 1e3
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    left.plot(said, seconds, ".", markersize=2, color=COLOURS[0], alpha=0.5)
    ends = [min(said.min(), seconds.min()), max(said.max(), seconds.max())]
    left.plot(ends, ends, color=COLOURS[6], linewidth=1)
    left.set_xlabel(f"{fit.law}, ms")
    left.set_ylabel("measured, ms")
    left.set_title(f"R^2 {fit.r_squared:.4f}")
    over = "tokens" if "tokens" in fitted.columns else "kv"
    right.plot(fitted.columns[over][::every], fit.residuals[::every] * 1e3, ".", markersize=2, color=COLOURS[1], alpha=0.5)
    right.axhline(0.0, color=COLOURS[6], linewidth=1)
    right.set_xlabel("tokens of the batch" if over == "tokens" else "KV tokens")
    right.set_ylabel("measured - fitted, ms")
