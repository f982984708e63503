"""Whether routing pays on a real barrier: two vLLM ranks in lock-step behind the gateway, policies in alternating rounds.

It cannot show what an accelerator gains: the model is tiny and runs on the processor, and a scheduler plug-in makes a step
as long as the papers' law says for its resident KV tokens. What is real: the engine, its barrier, scheduler and streams,
the gateway between. Engines, gateway and client share the machine, so seconds by the clock are noise; ratios are of the
engines' own records of what each step held, through one fixed law.

    python benchmarks/bench_real_barrier.py [--rounds 2] [--policy best:window=8 --policy jsq ...] [--requests 200]

Needs `make engines`. About half a minute a round and policy.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.engine_tier.barrier import LAW, OURS, SLEEP, SLOTS, Judged, even, mirrored, play, ranks, skewed
from tests.engine_tier.engines import Fleet, make_model

BASELINE = "jsq"
POLICIES = (OURS, BASELINE, "round-robin")
CASES = {"skewed": (skewed, 2.0), "skewed-at-once": (skewed, 0.0), "even": (even, 2.0)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--policy", action="append", help="may be given many times")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--case", action="append", choices=CASES, help="may be given many times")
    asked = parser.parse_args()
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, vLLM 0.32.0"
    )
    print(f"{SLOTS} sequences a rank; sleep {SLEEP[0]} s + {SLEEP[1]} s a token; judged by {LAW}")
    with tempfile.TemporaryDirectory() as name, Fleet(Path(name)) as fleet:
        folder = Path(name)
        group = ranks(fleet, make_model("moe", folder))
        number = 0
        for title in asked.case or CASES:
            workload, gather_ms = CASES[title]
            requests = workload(asked.requests)
            print(f"\n{title}: gather {gather_ms:g} ms")
            rounds: dict[str, list[Judged]] = {policy: [] for policy in asked.policy or POLICIES}
            for _ in range(asked.rounds):
                for policy, found in rounds.items():
                    found.append(play(group, requests, policy, gather_ms, number))
                    number += 1
                    print(found[-1].line(), flush=True)
            report(rounds)


def report(rounds: dict[str, list[Judged]]) -> None:
    """One row a policy: means over rounds, and the gain over the baseline of the same round with its range."""
    print("policy        tokens/s  idle   p95 ms   over jsq (least, most)   mirror off: load, idle   same ids")
    ids = next(iter(rounds.values()))[0].ids
    for policy, found in rounds.items():
        gains = [
            one.tokens_per_s / other.tokens_per_s - 1.0
            for one, other in zip(found, rounds.get(BASELINE, found), strict=True)
        ]
        off = [difference(one) for one in found]
        print(
            f"{policy:12} {np.mean([x.tokens_per_s for x in found]):9.1f} {np.mean([x.idle_share for x in found]):6.1%} "
            f"{1000 * np.mean([x.itl_p95_s for x in found]):7.0f}   "
            f"{np.mean(gains):+7.1%} ({min(gains):+.1%}, {max(gains):+.1%})    "
            f"{max(load for load, _ in off):.2%}, {100 * max(idle for _, idle in off):.2f} points    "
            f"{all(x.ids == ids for x in found)}"
        )


def difference(found: Judged) -> tuple[float, float]:
    """How far the gateway's mirror was off: a worker's load in a step at most, and the idle share."""
    mirror = mirrored(found)
    return float(mirror.off(found.steps).max()), abs(mirror.idle_share - found.idle_share)


if __name__ == "__main__":
    main()
