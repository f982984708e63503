"""Columns of the table of workers; kernels and the mirror read the same numbers."""

from __future__ import annotations

#: int64 columns. RUNNING, SENT (without a token yet), RESERVED (held by requests that want several), FOREIGN: slots.
#: FREE_AT_MOST: slots of the worker less foreign requests, below any number when it may not be sent anything. GROUP: its
#: barrier group. CAME, WENT: slots of requests that were sent there and that ended there, ever. CHANGES: times its running
#: requests became others, or turned out to be.
RUNNING, SENT, RESERVED, FREE_AT_MOST, FOREIGN, GROUP, CAME, WENT, CHANGES = range(9)
INTS = 9
#: float64 columns. LOAD, SENT_LOAD, FOREIGN_LOAD, CAPACITY: KV tokens running, sent, foreign, in all. SECONDS_PER_TOKEN:
#: what a token costs beside the others. HEARD_S: when its metrics were read last, inf where that does not matter.
LOAD, SENT_LOAD, FOREIGN_LOAD, CAPACITY, SECONDS_PER_TOKEN, HEARD_S = range(6)
FLOATS = 6
