"""Fits the models of a predictor in a thread, outside the event loop, one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable

from evenstep.dispatch.events import Fitted
from evenstep.predict.view import Fit

_log = logging.getLogger("evenstep.gateway")


class Trainer:
    """Makes the fits of one predictor in a thread, one at a time.

    Args:
        loop: the event loop.
        due: returns the fit that is due now, or None. A fit that is not due any more when it is made is dropped.
        tell: called on the loop with the event that a fit ended, successfully or not.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, due: Callable[[], Fit | None], tell: Callable[[Fitted], None]
    ) -> None:
        self._loop, self._due, self._tell = loop, due, tell
        self._at_work = False

    def look(self, fit: Fit) -> None:
        """Begin to make this due fit in a thread, and return at once; does nothing while another fit is being made."""
        if not self._at_work:
            self._at_work = True
            threading.Thread(target=self._make, args=(fit,), daemon=True, name="evenstep-fit").start()

    def _make(self, fit: Fit) -> None:
        """Make the fit, in the thread, and have the loop call `_made`."""
        failed: Exception | None = None
        try:
            fit.make()
        except Exception as error:  # a predictor may be a user's code
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: the result is not needed
            self._loop.call_soon_threadsafe(self._made, fit, failed)

    def _made(self, fit: Fit, failed: Exception | None) -> None:
        """Log a failed fit, and report the end of the fit to `tell` if it is still due."""
        self._at_work = False
        if failed is not None:
            _log.warning("a predictor could not be fitted: %s: %s", type(failed).__name__, failed)
        if self._due() is fit:  # else another one is due by now, or another predictor is asked
            self._tell(Fitted(now_s=time.monotonic(), ok=failed is None))
