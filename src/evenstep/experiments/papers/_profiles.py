"""Common parts of the experiments on measured profiles: the profiles, and engines that run on them at full token load."""

from __future__ import annotations

from functools import cache

import numpy as np

from evenstep.cost.profile import Profile
from evenstep.experiments import vocabulary as ex
from evenstep.measure.engine_records import IterationTable
from evenstep.request import F8, Trace
from evenstep.scheduling.policies.sarathi import Sarathi
from evenstep.sim.engine.simulation import Engine, simulate_engine
from evenstep.workload.reading import file_of, source_of
from evenstep.workload.replicate import replicate

#: Bundled profiles by the name they are shown under, small models first.
PROFILES = {
    "8B, RTX 4090": "rtx4090-llama31-8b",
    "8B, RTX PRO 6000": "rtxpro6000-llama31-8b",
    "30B-A3B, 2 x RTX PRO 6000": "rtxpro6000-qwen3-30b-a3b-ep2",
    "32B, 2 x RTX PRO 6000": "rtxpro6000-qwen3-32b-tp2",
}
#: Parameters, in billions, that are active for a token.
ACTIVE = dict(zip(PROFILES, (8, 8, 3, 32), strict=True))
BATCH_LIMIT = 256
#: KV tokens of memory, by the name shown: of the RTX 4090 as vLLM counted them; roughly what 96 GB leave elsewhere.
KV_TOKENS = dict(zip(PROFILES, (41_408, 450_000, 450_000, 450_000), strict=True))


@cache
def law(name: str) -> Profile:
    """The batch-time law of a profile in `PROFILES`, read once in a process."""
    return Profile(PROFILES[name])


def shown(setting: ex.Setting) -> list[str]:
    """Names of the profiles to run, from `PROFILES`; the first two when quick."""
    return setting.pick(list(PROFILES), list(PROFILES)[:2])


def requests(setting: ex.Setting, number: int) -> Trace:
    """400 requests (80 when quick), every 7th row of replicate `number` of ``sample:sharegpt``, without arrival times."""
    source = source_of(file_of("sample:sharegpt"), options={"prefix_blocks": False})
    drawn = replicate(source, number, setting.seed)
    rows = np.arange(setting.pick(400, 80)) * 7 % len(drawn)
    return Trace(prompt_tokens=drawn.prompt_tokens[rows], output_tokens=drawn.output_tokens[rows])


def served(name: str, trace: Trace, budget: int, until_s: float) -> IterationTable:
    """The iterations of an engine under `sarathi`, up to `budget` tokens each, to `until_s`; `name` gives law and memory."""
    engine = Engine(token_budget=budget, batch_limit=BATCH_LIMIT, kv_tokens=KV_TOKENS[name], block_tokens=16)
    run = simulate_engine(trace, Sarathi(), engine=engine, batch_time=law(name), until_s=until_s)
    assert run.iterations is not None
    return run.iterations


def full_seconds(setting: ex.Setting, name: str, number: int, budget: int, until_s: float) -> F8:
    """Seconds of each iteration of `served` on replicate `number` that ran exactly `budget` tokens, float64, in order."""
    table = served(name, requests(setting, number), budget, until_s)
    return table.seconds[table.tokens == budget]


def constants(setting: ex.Setting) -> list[ex.Constant]:
    """The constants of findings that experiments with `served` share: requests, batch limit, memory, policy."""
    return ex.constants(f"""
        requests | {setting.pick(400, 80)} | of sample:sharegpt, all there at the start; the paper drives it under a high
          load
        batch limit | {BATCH_LIMIT} | vLLM's default
        KV memory | 41,408 tokens on the RTX 4090, 450,000 elsewhere | what vLLM found there; roughly what 96 GB leave beside
          the weights
        policy | sarathi | decodes first, then prefill chunks, up to the budget
    """)


STANDS_IN = "iterations put together from measured tables of other GPUs and models, for iterations timed on an engine"
