"""An outcome made by hand: four requests, one of which failed."""

from __future__ import annotations

import numpy as np

from evenstep.load.records import Records
from evenstep.load.run import Outcome
from evenstep.measure.quantiles import LogHistogram
from evenstep.request import Trace

TRACE = Trace(np.array([10, 10, 20, 5]), np.array([5, 1, 3, 4]), name="four")


def four(**changes):
    records = Records(
        TRACE.prompt_tokens,
        TRACE.output_tokens,
        due_s=np.array([0.0, 1.0, 1.0, 2.0]),
        started_s=np.array([0.0, 1.0, 1.02, 2.0]),
        first_s=np.array([0.1, 1.2, 1.42, 2.1]),
        last_s=np.array([0.5, 1.2, 1.52, 2.2]),
        ended_s=np.array([0.5, 1.2, 1.6, 2.4]),
        prompt_tokens=np.array([10, 10, -1, 5]),
        output_tokens=np.array([5, 1, 3, 2]),
        status=np.full(4, 200),
        crc=np.arange(4),
        error=["", "", "", "cut"],
        message=["", "", "", "gone"],
        counting=["usage", "usage", "usage", "estimated"],
    )
    gaps = LogHistogram()
    gaps.add(np.array([0.1, 0.1, 0.1, 0.1, 0.05, 0.05]))
    values = {
        "records": records,
        "gaps": gaps,
        "gap_sum_s": 0.5,
        "gap_squares": 0.045,
        "tokens": np.array([1, 4, 0, 0, 1, 3, 0, 0, 1, 1]),
        "duration_s": 2.4,
        "start_s": 0.0,
        "lag_s": np.array([0.0, 0.001]),
        "cpu_s": 0.24,
        "model": "m",
        "connections": 2,
    }
    return Outcome(**{**values, **changes})
