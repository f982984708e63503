"""Columns of the table of requests; kernels and the table read the same numbers."""

from __future__ import annotations

#: int64 columns. WORKER: where it is, -1 = nowhere. PROMPT, PRODUCED: tokens, of all its copies. CAP: `max_tokens`.
#: LEAVE: age (tokens of one copy) at which it is expected to have left. PREDICTED: its age when that was said, -1 =
#: never. LEG: the upstream call that is its own. TRIES: engines it failed on. BASE: tokens it had when this leg began.
#: SEATED: slots it holds. CHARGED: sample of its prefiller that its charge came after.
#: CURVE_END: age from which its survival curve says that it is gone.
(
    STATE, REQUEST, WORKER, PROMPT, PRODUCED, CAP, KEY, SESSION, CLASS, COPIES, LEAVE, PREDICTED, LEG, TRIES, BASE, SEATED,
    CHARGED, EXPECTED, CONTINUES, CURVE_END,
) = range(20)  # fmt: skip
INTS = 20
#: float64 columns, seconds: origin of waiting, when it came into its queue, was sent, had its first token.
SINCE, QUEUED_AT, SENT_AT, FIRST_AT = range(4)
FLOATS = 4
#: LEAVE of a request that does not leave inside the window.
NEVER = 1 << 60
