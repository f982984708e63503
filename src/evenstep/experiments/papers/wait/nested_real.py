"""WAIT sec. 6.2, Fig. 14: Nested WAIT on lengths as they come, with the thresholds of the ten types."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from evenstep import streams
from evenstep.experiments.papers.interval._interval import lengths as like_lmsys
from evenstep.experiments.papers.wait._families import LAW, LIMIT, OUTPUTS, PROMPT, SHARES, TenTypes
from evenstep.experiments.papers.wait._wait import Workload
from evenstep.experiments.reproduce import Experiment, Setting
from evenstep.report.findings import Constant, Findings
from evenstep.request import I8
from evenstep.theory.nested_thresholds import doubts

TEN = TenTypes(rate=55.0, over=10)
#: Width of the paper's bins of outputs, tokens; what brings the stand-in's prompts to the paper's mean.
BIN, LONGER = 50, 1.5


def drawn(which: I8, seed: int, replicate: int) -> tuple[I8, I8]:
    """Prompts like those of LMSYS-Chat-1M, and outputs anywhere in their type's bin: int64[N] each."""
    prompt, _ = like_lmsys(which.size, seed, replicate)
    u = streams.uniform(seed, "wait-within", np.arange(which.size), draw=replicate)
    return np.ceil(LONGER * prompt).astype(np.int64), which * BIN + 1 + np.floor(u * BIN).astype(np.int64)


def run(setting: Setting) -> Findings:
    middle = tuple(end - BIN // 2 for end in OUTPUTS)
    broken = "; ".join(doubts(TEN.types, np.array(TEN.scaled), math.inf))
    work = Workload((PROMPT,) * 10, middle, SHARES, LIMIT, TEN.gated, rates=(TEN.rate,), law=LAW, lengths=drawn)
    found = work.find(
        setting,
        "the paper sees more throughput for some 0.5 s more latency; below capacity there is none to be had: what a policy "
        "that keeps up completes is what arrives, and pausing until others come leaves more of it over at the end. Rounding "
        f"to a tenth of the paper's ratios breaks eq. 10, so that requests queue at heads ({broken}); the solved keep it",
        [
            *TEN.constants("the paper: the same as of the ten types; over ten for a tenth of the rate"),
            Constant("rate", f"{TEN.rate:g} requests/s, constant", "Fig. 14 names none; its arrivals vary in time"),
            Constant(
                "outputs",
                f"uniform in bins of {BIN} tokens, shares {':'.join(map(str, SHARES))}",
                "the shares of the ten types, which are those of the data",
            ),
            Constant(
                "prompts",
                f"{LONGER:g} times a lognormal, median 11, sigma 1.95 on 1..468",
                f"shape as in Interval scheduling, of the same data; the mean is then this paper's {PROMPT}",
            ),
        ],
    )
    return replace(
        found,
        claims=[one for one in found.claims if "throughput" in one.says],  # its latency is higher in the paper, too
        stands_in=f"drawn prompt and output lengths for those of LMSYS-Chat-1M; {found.stands_in}",
    )


experiment = Experiment("Nested WAIT on lengths as they come", "WAIT sec. 6.2, Fig. 14", run, most_traces=0)
