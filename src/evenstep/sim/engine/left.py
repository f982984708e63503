"""How many tokens a request could run next."""

from __future__ import annotations

from evenstep.compiled import part
from evenstep.sim.engine.model import Run


@part
def set_left(run: Run, row: int) -> None:
    """Set a request's `left`, the tokens it could run in one batch now, and `decoding`, 1 if that is a decode, else 0.

    They follow from its prompt, prefilled and produced tokens; call it after each change of these.
    """
    request = run.requests.shown[row]
    pending = request.prompt_tokens + request.produced - request.prefilled
    if run.fixed.first_decoded == 1:
        request.left = max(pending, 1)
        request.decoding = int(pending <= 0)
    else:
        request.left = pending
        request.decoding = int(request.produced > 0 and pending == 1)
