"""How compiled loops call Python for the answer of a policy that has no kernel.

Compiled code calls a Python function that may not raise. A signal that came during compiled code, as Ctrl-C, is handled on
entry to that function, before any ``try`` of it. Python then only prints "Exception ignored", and the loop goes on with no
answer. So such errors are taken from Python's hook for them: the loop ends at the next question, and the error is raised.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

from evenstep.compiled import callback
from evenstep.sim.in_one_piece import asks_python

#: `Answer` answers the loop's question. `Stop` keeps an error for the host, and stops the loop.
Answer: TypeAlias = Callable[..., float]
Stop: TypeAlias = Callable[[BaseException], None]


def question(symbol: str, *takes: type[float]) -> tuple[Any, Callable[[Answer, Stop], AbstractContextManager[None]]]:
    """Make a callback by which compiled loops call Python, and a context manager that sets the Python functions to call.

    `symbol` is a name unique in the program; the callback `takes` arguments of these types, and returns a float. The second
    result, ``answering(answer, stop)``, sets the functions for loops that the same thread runs inside the ``with`` block,
    and restores the previous ones at its end. `answer` gets the callback's arguments, and its result is the callback's; it
    may start another run. Any error that it raises goes to `stop`, and the loop gets 0. An error that Python would ignore is
    raised at the end of the block. The callback must not be called while no function is set.
    """
    of_this_thread = threading.local()

    @contextmanager
    def answering(answer: Answer, stop: Stop) -> Generator[None]:
        before = getattr(of_this_thread, "asks", None)
        lost: list[BaseException] = []
        of_this_thread.asks = answer, stop, lost
        try:
            with _kept(asked, lost):
                yield
        except Exception:  # perhaps only because an answer was missing
            if not lost:
                raise
        finally:
            of_this_thread.asks = before
        if lost:
            raise lost[0]

    def asked(*words: float) -> float:
        answer, stop, lost = of_this_thread.asks
        try:
            asks_python()
            if lost:
                raise lost[0]
            return answer(*words)
        except BaseException as error:
            stop(error)
            return 0.0

    return callback(symbol, asked, *takes), answering


@contextmanager
def _kept(function: Callable[..., Any], lost: list[BaseException]) -> Generator[None]:
    """In the block, append errors of `function` that Python would ignore to `lost`; they come in the main thread only."""
    before = sys.unraisablehook
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def hook(found: Any) -> None:
        first = found.exc_traceback and found.exc_traceback.tb_frame  # `found.object` is None from Python 3.13 on
        if first is not None and first.f_code is function.__code__ and found.exc_value is not None:
            lost.append(found.exc_value)
        else:
            before(found)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
