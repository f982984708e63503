"""The family of (K_p, K_d)-FCFS policies: a mixed batch of the oldest requests of each phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evenstep.errors import InputError
from evenstep.scheduling.filling import Filling
from evenstep.scheduling.phases import needed_by, run_decodes, run_prefills
from evenstep.scheduling.view import UNLIMITED, BatchDecision, EngineView


@dataclass(frozen=True, slots=True)
class WorkConserving:
    """A batch of tokens of the K_p oldest requests with prefill left and of the K_d oldest that decode.

    Work-conserving while the caps do not bind: the budget is filled whenever there is as much to run, a seat and memory. A
    cap K_d below the budget is not, whatever the load (the paper's theorem needs both).

    Running requests are older than those that wait: age goes by admission, then by arrival. When a running request does
    not fit, the one admitted last gives up its memory. A request is admitted when the whole of its prefill fits; where
    prefills are loaded first, beside what those that decode take next.

    Args:
        prefill_cap: K_p, requests with prefill left that may be loaded; 0 = all.
        decode_cap: K_d, decoding requests that may be loaded; 0 = all.
        first: the phase that is loaded first.
        within: who of a phase goes first: the oldest, or the one with the ``fewest-left`` tokens, of its prefill or, by the
            midpoint of its believed bounds, of its output. A prefill that has begun goes before those that wait. With
            ``fewest-left`` and `prefill_cap` 0 the whole queue is looked at in every iteration.

    Raises:
        InputError: a negative cap.

    Source: Throughput-optimal sec. 2.3; which of the capped requests go first is any rule's to say.
    """

    prefill_cap: int = 0
    decode_cap: int = 0
    first: Literal["decode", "prefill"] = "decode"
    within: Literal["oldest", "fewest-left"] = "oldest"

    def __post_init__(self) -> None:
        for name in ("prefill_cap", "decode_cap"):
            if getattr(self, name) < 0:
                raise InputError(
                    "work-conserving", name, getattr(self, name), "requests, >= 0", "0 is no cap."
                )

    def form_batch(self, view: EngineView) -> BatchDecision:
        filling, running = Filling(view), int(view.running.sum())
        decodes = [k for k in range(running) if view.decoding[k]][: self.decode_cap or UNLIMITED]
        prefills = [k for k in range(view.left.size) if k >= running or not view.decoding[k]]
        prefills = prefills[: self.prefill_cap or UNLIMITED]
        if self.within == "fewest-left":
            middle = (
                view.output_low + view.output_high - 2 * view.produced
            )  # twice what is believed to be left
            decodes.sort(key=lambda k: int(middle[k]))
            prefills.sort(key=lambda k: (k >= running, int(view.left[k])))
        if self.first == "decode":
            run_decodes(filling, decodes)
            run_prefills(filling, prefills, 0)
        else:
            run_prefills(filling, prefills, needed_by(filling, decodes))
            run_decodes(filling, decodes)
        return filling.decision()


policy = WorkConserving
