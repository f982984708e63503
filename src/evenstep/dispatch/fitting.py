"""Models of a predictor: what fit is due, and the event at which one is put in."""

from __future__ import annotations

from evenstep.dispatch import events as ev
from evenstep.dispatch.admitting import Admitting
from evenstep.predict.view import Fit


class Fitting(Admitting):
    """Requests, the rounds that admit them, and the models that rounds look ahead by.

    No decision fits. The host looks at `fit` when it likes, makes it beside the decisions, and tells `Fitted`: the new
    models decide from that event on, and a replay, which finds the fit not made, makes it from the same data there.
    """

    @property
    def fit(self) -> Fit | None:
        """A fit that is due; the same until `Fitted`, or until the next one falls due."""
        return None if self.deciding.ahead is None else self.deciding.ahead.fit

    def _fitted(self, event: ev.Fitted) -> None:
        if self.deciding.ahead is not None:
            self.deciding.ahead.fitted(event.ok)
