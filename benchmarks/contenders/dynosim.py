"""DynoSim, the offline replay of NVIDIA Dynamo's mock engine, as a contender: run by the interpreter it is installed for.

    python dynosim.py TRACE.jsonl SEATS BUDGET BLOCKS BLOCK_TOKENS

Prints one line of JSON: its version, CPU seconds of the whole call and of the simulation alone, by the share of the call
that it says that took, and what it simulated. Its engine is its model of vLLM with its own batch times, without prefix
caching.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version


def simulate(trace: str, seats: int, budget: int, blocks: int, block_tokens: int) -> dict[str, object]:
    import dynamo._core as core

    engine = core._normalize_mocker_config(
        {
            "engine": {
                "num_gpu_blocks": blocks,
                "block_size": block_tokens,
                "max_num_seqs": seats,
                "max_num_batched_tokens": budget,
                "enable_prefix_caching": False,
            }
        }
    )
    start, wall = time.process_time(), time.perf_counter()
    found = core.run_mocker_trace_replay(
        [trace],
        extra_engine_args=engine,
        trace_block_size=8192,
        capture_per_request=True,
        capture_planner_details=False,
    )
    seconds, wall = time.process_time() - start, time.perf_counter() - wall
    return {
        "version": version("ai-dynamo-runtime"),
        "cpu_s": seconds,
        "simulation_s": seconds * found.summary["wall_time_ms"] / 1e3 / wall,
        "requests": found.summary["completed_requests"],
        "output_tokens": found.summary["total_output_tokens"],
        "admitted_again": sum(one["readmission_count"] for one in found.per_request),
    }


if __name__ == "__main__":
    print(json.dumps(simulate(sys.argv[1], *map(int, sys.argv[2:]))))
