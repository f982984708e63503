"""Sets of engines that start together and stay for a test module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.engine_tier.barrier import Ranks, ranks
from tests.engine_tier.engines import Fleet, Process, make_model, nixl


@dataclass
class Engines:
    """A fleet and who is who in it."""

    fleet: Fleet
    workers: list[Process]
    prefiller: Process | None = None


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def plain(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """Two instances that know nothing of each other."""
    model = make_model("dense", models)
    flags = ["--max-model-len", "512", "--max-num-seqs", "16", "--kv-cache-memory-bytes", "2097152"]
    with Fleet(tmp_path_factory.mktemp("plain")) as fleet:
        workers = [fleet.vllm(f"engine-{n}", model, *flags) for n in range(2)]
        fleet.ready(*workers)
        yield Engines(fleet, workers)


@pytest.fixture(scope="module")
def split(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """One instance that computes prompts and two that fetch their KV by NIXL."""
    model = make_model("dense", models)
    flags = ["--max-model-len", "1024", "--max-num-seqs", "16", "--kv-cache-memory-bytes", "8388608"]
    with Fleet(tmp_path_factory.mktemp("split")) as fleet:
        made = []
        for name, role in (
            ("prefill", "kv_producer"),
            ("decode-0", "kv_consumer"),
            ("decode-1", "kv_consumer"),
        ):
            transfer, env = nixl(role)
            if role == "kv_consumer":  # steps slow enough to be followed while they run
                transfer += ["--scheduler-cls", "step_law.StepLaw"]
                env["ENGINE_LAB_LAW"] = "0.015,0"
            made.append(fleet.vllm(name, model, *flags, *transfer, env=env))
        fleet.ready(*made)
        yield Engines(fleet, made[1:], prefiller=made[0])


@pytest.fixture(scope="module")
def barrier(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """Two ranks of a mixture of experts, in lock-step, at the papers' step law."""
    with Fleet(tmp_path_factory.mktemp("barrier")) as fleet:
        yield ranks(fleet, make_model("moe", models))
