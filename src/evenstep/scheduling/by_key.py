"""Running by priority: the smallest key goes first, whether it runs already or waits; in plain Python.

A request that is not reached pauses with its KV. When memory is short the running request with the largest key gives it
up, for those with smaller keys that run, and for those that wait if they are to make room. `by_key_kernel` is the
compiled twin.

A request whose key is the smallest runs in every iteration and keeps its memory: with keys that rise only by what a
request is served, or that fall by it, every run comes to its end.
"""

from __future__ import annotations

from evenstep.errors import InputError
from evenstep.scheduling.filling import Filling
from evenstep.scheduling.order import QueueOrder
from evenstep.scheduling.view import BatchDecision, EngineView


def run_by_key(view: EngineView, order: QueueOrder, makes_room: bool, watermark: float) -> BatchDecision:
    """One batch by keys.

    Args:
        view: the engine.
        order: the key, which the host keeps the queue sorted by; without `level`, which no view tells. Equal keys: who
            runs goes before who waits, then by admission.
        makes_room: whether running requests with larger keys are evicted for one that waits and has no memory or no place
            otherwise.
        watermark: share of the memory that an admission leaves free while others run.
    """
    return _ByKey(view, order, makes_room, watermark).decision()


def check_watermark(policy: str, watermark: float) -> None:
    """Refuse what is no share.

    Raises:
        InputError: naming it.
    """
    if not 0.0 <= watermark < 1.0:
        raise InputError(policy, "watermark", watermark, "a share of the memory, 0 <= share < 1")


class _ByKey:
    def __init__(self, view: EngineView, order: QueueOrder, makes_room: bool, watermark: float) -> None:
        self.filling, self.order, self.makes_room = Filling(view), order, makes_room
        self.reserve = int(watermark * (view.kv_capacity // view.block_tokens)) * view.block_tokens
        self.sorted = sorted(range(self.filling.running), key=lambda k: (self.key(k), k))

    def key(self, k: int) -> float:
        view = self.filling.view
        return self.order.key(
            seed=view.seed, request=int(view.request_id[k]), arrival_s=float(view.arrival_s[k]),
            prompt=int(view.prompt_tokens[k]), low=int(view.output_low[k]), high=int(view.output_high[k]),
            produced=int(view.produced[k]), reached=int(view.reached[k]), lost_at=int(view.lost_at[k]),
            evictions=int(view.evictions[k]), attained=0,
        )  # fmt: skip

    def decision(self) -> BatchDecision:
        count = self.filling.view.left.size
        at, waiting, admitting = 0, self.filling.running, True
        while True:
            if admitting and waiting < count and self.goes_before(waiting, at):
                admitting = self.admit(waiting, at)
                waiting += 1
            elif at < len(self.sorted):
                self.run(at)
                at += 1
            else:
                return self.filling.decision()

    def goes_before(self, waiting: int, at: int) -> bool:
        """Whether a request that waits goes before the next one that runs."""
        return at >= len(self.sorted) or self.key(waiting) < self.key(self.sorted[at])

    def evict_last(self) -> None:
        self.filling.evict(self.sorted.pop())

    def run(self, at: int) -> None:
        """The request runs; those with larger keys make room for it, and it pauses where that is not enough."""
        filling, request = self.filling, self.sorted[at]
        tokens = filling.most(request)
        while tokens > 0 and filling.grows(request, tokens) > filling.free:
            if len(self.sorted) == at + 1:
                return
            self.evict_last()
        if tokens > 0:
            filling.give(request, tokens)

    def admit(self, request: int, at: int) -> bool:
        """A request is admitted if the whole of its prefill fits; whether it was."""
        filling = self.filling
        if filling.seats <= 0 or filling.budget <= 0:
            return False
        reserve = self.reserve if filling.running or filling.tokens.any() else 0
        needed = filling.grows(request, int(filling.view.left[request])) + reserve
        if self.makes_room:
            self.make_room(needed, at)
        tokens = filling.most(request)
        if tokens < 1 or needed > filling.free:
            return False
        filling.give(request, tokens)
        return True

    def make_room(self, needed: int, at: int) -> None:
        """Requests with larger keys give up their memory, the largest first, until `needed` KV tokens and a place are free.

        Unless all of them together hold too little.
        """
        filling = self.filling
        held = sum(int(filling.view.resident[k]) for k in self.sorted[at:])
        if needed <= filling.free + held:
            while len(self.sorted) > at and (needed > filling.free or filling.places <= 0):
                self.evict_last()
