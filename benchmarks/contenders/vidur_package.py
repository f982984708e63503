"""Vidur, the simulator of inference clusters, as a contender: run by the interpreter it is installed for.

    python vidur_package.py TRACE.jsonl SEATS BUDGET BLOCKS BLOCK_TOKENS [metrics]

The last line is JSON: its version, CPU seconds of the run, iterations and restarts. Its Sarathi scheduler; one replica.
Its measured execution times are not in the package: an iteration takes here what ours takes, by the tokens it runs.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

LAW = (0.02347, 0.000145, 96.0)


def simulate(trace: str, seats: int, budget: int, blocks: int, block_tokens: int, metrics: bool) -> dict:
    from vidur import config
    from vidur._native.entities import ExecutionTime
    from vidur.entities import Request
    from vidur.execution_time_predictor import ExecutionTimePredictorRegistry
    from vidur.request_generator import RequestGeneratorRegistry
    from vidur.simulator import Simulator

    class Mended(Request):
        """As published it stops at the first eviction: an evicted request forgets only one of its two counts of tokens."""

        def restart(self):
            super().restart()
            self._num_stage_processed_tokens, self._is_prefill_stage_complete = 0, False

    requests, batches = [], []
    with Path(trace).open() as file:
        for one in map(json.loads, file):
            lengths = one["input_length"], one["output_length"]
            requests.append(Mended(one["timestamp"] / 1e3, *lengths))

    class Predictor:
        """Seconds by the tokens of a batch."""

        def get_execution_time(self, batch, stage):
            used = sum(batch.num_q_tokens)
            batches.append(used)
            ms = (LAW[0] + LAW[1] * max(0.0, used - LAW[2])) * 1e3
            return ExecutionTime(1, ms, *(0.0,) * 13)

    class Generator:
        def generate(self):
            return requests

    ExecutionTimePredictorRegistry.get = classmethod(lambda *a, **k: Predictor())
    RequestGeneratorRegistry.get = classmethod(lambda *a, **k: Generator())
    with tempfile.TemporaryDirectory() as folder:
        settings = config.SimulationConfig(
            log_level="error",
            cluster_config=config.ClusterConfig(
                num_replicas=1,
                replica_config=config.ReplicaConfig(num_pipeline_stages=1),
                cache_config=config.CacheConfig(
                    block_size=block_tokens,
                    num_blocks=blocks,
                    watermark_blocks_fraction=0.01,
                    enable_prefix_caching=False,
                ),
                replica_scheduler_config=config.SarathiSchedulerConfig(batch_size_cap=seats, chunk_size=budget),
            ),
            metrics_config=config.MetricsConfig(
                write_metrics=metrics,
                write_json_trace=False,
                enable_chrome_trace=False,
                store_plots=False,
                output_dir=folder,
            ),
        )
        simulator = Simulator(settings)
        start = time.process_time()
        simulator.run()
        seconds = time.process_time() - start
    return {
        "version": version("vidur"),
        "simulation_s": seconds,
        "iterations": len(batches),
        "requests": sum(one.completed for one in requests),
        "restarts": sum(one.num_restarts for one in requests),
    }


if __name__ == "__main__":
    answer = simulate(sys.argv[1], *map(int, sys.argv[2:6]), metrics=sys.argv[6:] == ["metrics"])
    print(json.dumps(answer))
