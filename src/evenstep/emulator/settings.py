"""The settings of `evenstep emulate`; each field is a flag and a key of the YAML file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from evenstep.config.layers import Settled
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.cost.batch import BatchTime
    from evenstep.cost.view import StepTime


@dataclass(frozen=True, slots=True)
class EmulatorSettings:
    """Emulated engines: their ranks, laws of time, memory, answers and faults.

    Args:
        ranks: data-parallel ranks in all.
        groups: sizes of the barrier groups, e.g. 4,4; one group of all ranks when left out.
        slots: requests a rank runs at a time, B.
        host: address to listen at.
        port: port to listen at; 0 = any free one.
        first_rank: number of the first rank on the metrics page, as on a further node of vLLM's hybrid load balancing; the
            rank header still counts from 0.
        port_per_rank: one port for each rank, from --port upwards, instead of one port and the header X-data-parallel-rank.
        dialect: dialect of the answers: vllm or sglang.
        model: name of the served model.
        role: prefill (keeps the KV of prompts for other engines), decode (fetches such KV) or both.
        overhead_s: fixed seconds of a step, C.
        per_token_s: seconds that each resident KV token of the heaviest rank adds to a step, t_l.
        sync_s: seconds of synchronisation added to C, or pairs of group size and seconds, e.g. 8:0.0002/64:0.0009.
        law: step-time law in place of overhead_s, per_token_s and sync_s, e.g.
            piecewise:knots=0:0/40000:0.003/110000:0.012.
        batch_time: batch-time law, as of `compare --engine`, in place of all other seconds of a step, e.g.
            profile:path=rtx4090-llama31-8b; overhead_s is then added only if given.
        prefill_per_token_s: seconds that each prompt token adds to its rank's part of a step.
        decode_per_token_s: seconds that each decoded token adds to its rank's part of a step.
        token_budget: most tokens a rank computes in a step, for running requests in order of their admission, then for the
            queue; a prompt that exceeds what is left is computed in chunks; 0 = no limit.
        kv_tokens: KV tokens that fit in a rank's memory.
        block_size: KV tokens of a block.
        max_model_len: most tokens of prompt and answer together; left out = as many as fit in a rank's memory.
        prefix_caching: keep the full blocks of prompts and answers for later requests.
        mean_output_tokens: mean length at which answers without ignore_eos end by themselves; 0 = never.
        lease_s: engine seconds for which prefilled KV is kept for another engine to fetch.
        speed: factor by which engine time runs faster than the wall clock.
        faults: faults from the start, e.g. status:status=503,count=3; kinds: refuse, stall, die, kill-rank,
            kill-group, status, malformed, html, empty, cut, error-event, recomputed, slow-metrics.
        seed: seed of the answers, so another seed acts as another model; also draws the requests that a fault hits.
    """

    ranks: int = 1
    groups: list[int] = field(default_factory=list[int])
    slots: int = 72
    host: str = "127.0.0.1"
    port: int = 8100
    first_rank: int = 0
    port_per_rank: bool = False
    dialect: Literal["vllm", "sglang"] = "vllm"
    model: str = "emulated"
    role: Literal["both", "prefill", "decode"] = "both"
    overhead_s: float = 0.0049
    per_token_s: float = 1.1e-7
    sync_s: float | str = field(default=0.0, metadata={"shape": "X|N:X/N:X"})
    law: str | None = field(default=None, metadata={"shape": "NAME[:KEY=VALUE,...]"})
    batch_time: str | None = field(default=None, metadata={"shape": "NAME[:KEY=VALUE,...]"})
    prefill_per_token_s: float = 2e-5
    decode_per_token_s: float = 0.0
    token_budget: int = 8192
    kv_tokens: int = 524_288
    block_size: int = 16
    max_model_len: int | None = None
    prefix_caching: bool = False
    mean_output_tokens: float = 256.0
    lease_s: float = 30.0
    speed: float = 1.0
    faults: list[str] = field(default_factory=list[str], metadata={"shape": "KIND[:KEY=VALUE,...]"})
    seed: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of ranks in each barrier group; one group of all ranks if `groups` is empty."""
        return tuple(self.groups) or (self.ranks,)

    @property
    def blocks(self) -> int:
        """Number of KV blocks of a rank: `kv_tokens` over `block_size`, rounded down."""
        return self.kv_tokens // self.block_size

    @property
    def longest(self) -> int:
        """The most tokens of prompt and answer together that a request may have; they fit in a rank's memory."""
        held = self.blocks * self.block_size
        return held if self.max_model_len is None else min(held, self.max_model_len)

    def step_time(self) -> StepTime:
        """Make the step-time law of these settings; it is used if they name no batch-time law."""
        from evenstep.cost.linear import law_of

        return law_of(self.law, overhead_s=self.overhead_s, per_token_s=self.per_token_s, sync_s=self.sync_s)

    def batch_law(self) -> BatchTime | None:
        """Make the batch-time law of these settings, None if unset; one that does not fit the groups raises `InputError`."""
        from evenstep.cost.batch import batch_law_of
        from evenstep.cost.lockstep import parts_of

        if self.batch_time is None:
            return None
        law = batch_law_of(self.batch_time)
        for size in set(self.sizes):
            parts_of(law, size)
        return law


MOST_RANKS = 4096
_AT_LEAST = {
    **dict.fromkeys(("ranks", "slots", "kv_tokens", "block_size", "max_model_len"), 1),
    **dict.fromkeys(("first_rank", "port", "overhead_s", "per_token_s", "prefill_per_token_s", "decode_per_token_s"), 0),
    **dict.fromkeys(("token_budget", "mean_output_tokens", "lease_s", "seed"), 0),
}


def checked(settled: Settled[EmulatorSettings]) -> EmulatorSettings:
    """Check that the settings are in range and consistent; returns them. With a batch-time law, a default `overhead_s` is 0.

    The first wrong field raises `InputError`, which names the field as its layer (flag, file or default) writes it.
    """
    from evenstep.emulator.faults import fault_of

    value = settled.value
    settled.check_numbers(_AT_LEAST, above_zero=("speed",))
    if value.ranks > MOST_RANKS:
        raise settled.refusal("ranks", f"an integer in 1..{MOST_RANKS}")
    if value.port > 65535 or (value.port_per_rank and value.port + value.ranks - 1 > 65535):
        raise settled.refusal("port", "ports up to 65535")
    if value.groups and (min(value.groups) < 1 or sum(value.groups) != value.ranks):
        raise settled.refusal("groups", f"sizes >= 1 that add up to {counted(value.ranks, 'rank')}")
    if value.blocks < 1:
        raise settled.refusal("kv_tokens", f"at least one block of {value.block_size} tokens")
    if 0 < value.mean_output_tokens < 1:
        raise settled.refusal("mean_output_tokens", "0, or a number >= 1")
    if not (value.model and value.model.isprintable()):
        raise settled.refusal("model", "a name that can be printed")
    of_steps = ("per_token_s", "sync_s", "law", "prefill_per_token_s", "decode_per_token_s")
    for law, what, names in (
        (value.law, "a law", ("overhead_s", "per_token_s", "sync_s")),
        (value.batch_time, "a batch-time law", of_steps),
    ):
        for name in names if law is not None else ():
            if settled.origin[name] != "default":
                raise settled.refusal(name, f"no value when {what} is given", "Give it to the law.")
    if value.batch_time is not None and settled.origin["overhead_s"] == "default":
        value = replace(value, overhead_s=0.0)
    value.step_time()
    value.batch_law()
    for text in value.faults:
        fault_of(text, value.ranks, value.dialect)
    return value
