"""Makes room for requests that fit nowhere: drains one worker by the room a large request needs, before it is due.

A request of half a worker's load fits nowhere by chance. When it must be admitted at last (`age_limit`), it raises the
envelope of all workers for as long as it runs. A single worker with low load costs a group of n workers only the n-th part
of it. So the worker with the most room is drained in time, by sending it small requests, until the large one brings it back
to its level.

The drain starts `LEAD` times earlier than the time in which that many tokens leave the worker while other requests wait.
From then on its admission is rewarded where it fits. The fit criterion relaxes as the deadline nears, because the worker may
have no free slot at the deadline.
"""

from __future__ import annotations

import numpy as np

from evenstep.compiled import part
from evenstep.routing.best.targets import Moment, Outlook, total_weight
from evenstep.routing.bf_io.plan import Plan
from evenstep.routing.rules import RuleView

#: How early a drain begins, as a multiple of the time in which the needed tokens leave.
LEAD = 1.5
#: A decision sets aside at most one in this many workers, to drain or for a due request; at least one may be.
SINKING_IN = 4
#: The value of admitting a due request where it fits: its size at every step, times this factor.
DUE = 2.0


@part
def make_room(moment: Moment, view: RuleView, look: Outlook, plan: Plan) -> None:
    """For each request whose wait nears `moment.limit_s`, oldest first: reward its admission, or drain a worker for it.

    Its worker is the one with the most room below its level. If that has a free slot and enough room, the request's
    `plan.worth` is raised. If not, the worker's `plan.target` is lowered, which does nothing for a worker without a free
    slot. Each worker serves one request, and a quarter of the workers at most (at least one) are used. Call it after
    `set_targets`, `set_worth` and `stand`. It does nothing without a limit of the wait, or while the pace of admissions is
    unknown. `look.filled` is overwritten.
    """
    if not 0.0 < moment.limit_s < np.inf or moment.each_s <= 0.0:
        return
    workers, weight, room = view.load.size, total_weight(plan), look.filled
    for g in range(workers):
        room[g] = look.level[g] - room[g]
    left = max(1, workers // SINKING_IN)
    for i in range(moment.waiting):
        if left == 0:
            break
        size = view.waiting_load[i]
        lead_s = min(LEAD * size / moment.request * workers * moment.each_s, moment.limit_s)
        late = 1.0 - (moment.limit_s - (view.now_s - view.since_s[i])) / lead_s
        if late <= 0.0:
            continue
        g = int(np.argmax(room))
        need = look.speed[g] * size
        if room[g] >= need * (1.0 - late * late) and view.free_slots[g] > 0:
            plan.worth[plan.rank[i]] += DUE * weight * size * workers
        else:
            for o in range(plan.place.size):
                if plan.place[o] == g:
                    plan.target[o] = min(plan.target[o], look.level[g] - look.rise[g] - need)
        room[g] = -np.inf
        left -= 1
