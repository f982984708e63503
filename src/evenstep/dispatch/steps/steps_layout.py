"""Numbers of the steps of one group; `steps`, `step_fit` and the kernel that counts chunks read the same ones."""

from __future__ import annotations

#: float64. LAST_S: when its last step was complete; nan = nothing ran before. SECONDS: of a step that is complete and not
#: counted yet, else nan. STEPS: counted. STEP_S, ENDED_S: how long the last of them took, and when it ended. NEWS: steps
#: whose idle time was not looked at yet.
LAST_S, SECONDS, STEPS, STEP_S, ENDED_S, NEWS = range(6)
#: Of the fitted law: steps, their weight, means and centred moments of envelope and seconds.
FIT_STEPS, WEIGHT, X, Y, XX, XY, YY = range(6, 13)
FLOATS = 13
#: Behind these: the load of each worker in the last step counted, before its own tokens; then of each new step the
#: heaviest load, all loads, the fixed part of a step in tokens, seconds.
NEW = 4
#: New steps that are looked at together.
TOGETHER = 256
#: The law: weight of the past at each new step, so that about the last thousand count; fewest steps that make one.
KEEP, FEWEST = 0.999, 50
#: Two standard errors of a law's slope beside the slope, and of its fixed part beside a mean step, at most: else it is none.
ERROR = 0.25
