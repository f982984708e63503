"""Rounds on a real barrier: the same requests through the gateway under one policy after the other, judged by what the
engines recorded.

Two ranks of a mixture of experts step together. Each sleeps as long as its resident KV tokens say (`LAW`, the papers' step
law), so a step lasts as long as that of the heavier rank. Everything shares two processor cores, so seconds by the clock are
noise; judged are the loads of each recorded step, through one fixed law.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.engine_tier.clients import Answer, ask_all, body
from tests.engine_tier.engines import Fleet, Process
from tests.engine_tier.prompts import prompt

from evenstep import streams
from evenstep.cost.linear import Linear
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.log.file import read_log
from evenstep.dispatch.log.records import Checkpoint, Chunks, Done, Header, Round
from evenstep.load.processes import free_ports
from evenstep.measure.metrics import idle_share
from evenstep.plugins.vllm.steps import GroupSteps, read_steps

#: Our policy, as a gateway has it when nobody says anything else.
OURS = "best"
#: Seconds before and after a round in which the group has nothing to do: engines and client need not agree about the time.
ASIDE_S = 0.5
#: Sequences a rank runs at a time.
SLOTS = 8
#: What each rank sleeps in a step: seconds, and seconds per resident KV token.
SLEEP = (0.005, 0.00002)
#: What a step of this set of engines lasts, fitted once on two quiet cores: the sleep and the engine's own work.
LAW = Linear(overhead_s=0.0216, per_token_s=0.0000205)


@dataclass(frozen=True, slots=True)
class Ranks:
    """Two ranks that share a barrier, each behind its own port.

    Args:
        steps: folder in which they record what their steps held.
    """

    fleet: Fleet
    workers: list[Process]
    model: Path
    steps: Path


def ranks(fleet: Fleet, model: Path) -> Ranks:
    """Start them, and wait until they answer."""
    steps = fleet.folder / "steps"
    env = {"ENGINE_LAB_LAW": f"{SLEEP[0]},{SLEEP[1]}", "EVENSTEP_STEPS_FOLDER": str(steps)}
    meeting = str(*free_ports(1))
    workers = [
        fleet.vllm(
            f"rank-{rank}",
            model,
            "--max-model-len",
            "1024",
            "--max-num-seqs",
            str(SLOTS),
            "--kv-cache-memory-bytes",
            "4194304",
            "--no-enable-prefix-caching",
            "--scheduler-cls",
            "step_law.StepLaw",
            "--data-parallel-size",
            "2",
            "--data-parallel-rank",
            str(rank),
            "--data-parallel-address",
            "127.0.0.1",
            "--data-parallel-rpc-port",
            meeting,
            env=env,
        )
        for rank in range(2)
    ]
    fleet.ready(*workers)
    return Ranks(fleet, workers, model, steps)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: bytes of its prompt, which are its tokens, and tokens of its answer."""

    prompt: str
    tokens: int


def skewed(count: int = 200, seed: int = 1) -> list[Asked]:
    """Four of five prompts of 20 to 60 tokens, one of 500 to 800; answers of 16 to 64."""

    def between(name: str, number: int, low: int, high: int) -> int:
        return low + int(streams.uniform(seed, name, number) * (high - low + 1))

    sizes = [
        between("long", n, 500, 800) if streams.uniform(seed, "which", n) < 0.2 else between("short", n, 20, 60)
        for n in range(count)
    ]
    return [Asked(prompt(n, size), between("answer", n, 16, 64)) for n, size in enumerate(sizes)]


def even(count: int = 120, seed: int = 1) -> list[Asked]:
    """Prompts of the same size, answers of 16 to 64 tokens: little to gain."""
    return [Asked(prompt(n, 120), 16 + int(streams.uniform(seed, "answer", n) * 49)) for n in range(count)]


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """One round.

    Args:
        policy: NAME[:key=value,...]. gather_ms: of its rounds of decision.
        seconds: by the clock, first request to last token. law_s: the recorded steps through `LAW`.
        tokens: of all answers. idle_share: at the barrier, by `LAW`. itl_p95_s: 95th percentile over tokens of the seconds of
            their steps, by `LAW`; clock_itl_p95_s: of the client's gaps between tokens.
        fallbacks: decisions that least load made instead of the policy.
        ids: token ids of each answer.
        steps: as the engines recorded them.
        log: the gateway's decision log. workers: names of the ranks in it. unix_s: Unix time of 0 on its clock.
    """

    policy: str
    gather_ms: float
    seconds: float
    law_s: float
    tokens: int
    idle_share: float
    itl_p95_s: float
    clock_itl_p95_s: float
    fallbacks: int
    ids: list[list[int]]
    steps: GroupSteps
    log: Path
    workers: list[str]
    unix_s: float

    @property
    def tokens_per_s(self) -> float:
        """By `LAW`."""
        return self.tokens / self.law_s

    def line(self) -> str:
        """The round in a line."""
        return (
            f"{self.policy:12} gather {self.gather_ms:g} ms: {self.tokens_per_s:6.1f} tokens/s by law, "
            f"{self.tokens / self.seconds:6.1f} by the clock, idle {self.idle_share:5.1%}, p95 between tokens "
            f"{1000 * self.itl_p95_s:.0f} ms by law, {1000 * self.clock_itl_p95_s:.0f} by the clock, "
            f"{len(self.steps.load)} steps, {self.fallbacks} fallbacks"
        )


def begin(group: Ranks, policy: str, gather_ms: float, number: int) -> Process:
    """A gateway in front of the group that is ready; its decision log is ``decisions-<number>.jsonl``.

    Its draws are keyed by the number: ties of join-shortest-queue are chance, and under one key all rounds can have the same luck.

    It counts prompts by the model's tokenizer: it has no answers yet from which it could tell how many bytes a token has.
    """
    config = {
        "version": 1,
        "admin": {"enabled": False},
        "workers": [{"url": worker.url, "group": "barrier", "slots": SLOTS} for worker in group.workers],
        "policy": policy,
        "tokenizers": {"tiny": str(group.model / "tokenizer.json")},
        # stale_s and budget_ms stay as they are by default: engines, gateway and client share two cores, so metrics are late
        "dispatch": {"gather_ms": gather_ms, "ttl_s": 600.0, "seed": number},
        "decisions": {"path": str(group.fleet.folder / f"decisions-{number}.jsonl")},
    }
    path = group.fleet.folder / f"gateway-{number}.yaml"
    path.write_text(json.dumps(config))  # JSON is YAML
    gateway = group.fleet.gateway(f"gateway-{number}", "--config", str(path))
    group.fleet.ready(gateway, path="/readyz")
    return gateway


def play(group: Ranks, asked: list[Asked], policy: str, gather_ms: float, number: int) -> Judged:
    """All requests at once through a gateway of its own, to the last token.

    Raises:
        RuntimeError: an answer is not whole.
    """
    gateway = begin(group, policy, gather_ms, number)
    log = group.fleet.folder / f"decisions-{number}.jsonl"
    questions = [("completions", body("completions", one.prompt, one.tokens, stream=True)) for one in asked]
    began_s, began_clock_s = time.time(), time.monotonic()
    answers = asyncio.run(ask_all(gateway.url, questions, in_order=True))
    seconds = time.monotonic() - began_clock_s
    group.fleet.stop(gateway)
    for one, answer in zip(asked, answers, strict=True):
        if len(answer.ids) != one.tokens or not answer.is_done:
            raise RuntimeError(f"{policy}: {len(answer.ids)} of {one.tokens} tokens; {answer.error or gateway.tail()}")
    steps = settled(group.steps).between(began_s - ASIDE_S, began_s + seconds + ASIDE_S)
    names = [worker.url.removeprefix("http://") for worker in group.workers]
    return judge(policy, gather_ms, seconds, answers, steps, log, names)


def settled(folder: Path) -> GroupSteps:
    """The recorded steps, once both ranks have written their last one: the group steps on for a while when all answers are
    there, and not every rank writes at the same time."""
    deadline_s = time.monotonic() + 60.0
    found = read_steps(folder)
    while found.alone and time.monotonic() < deadline_s:
        time.sleep(0.1)
        found = read_steps(folder)
    return found


def judge(
    policy: str,
    gather_ms: float,
    seconds: float,
    answers: list[Answer],
    steps: GroupSteps,
    log: Path,
    workers: list[str],
) -> Judged:
    """What a round's steps say."""
    step_s, idle = by_law(steps.load)
    gaps = np.concatenate([np.diff(answer.times) for answer in answers])
    fallbacks = sum(bool(record.fallback) for record in read_log(log) if isinstance(record, Round))
    return Judged(
        policy,
        gather_ms,
        seconds,
        float(step_s.sum()),
        sum(len(answer.ids) for answer in answers),
        idle,
        weighted_p95(step_s, steps.produced.sum(axis=1)),
        float(np.quantile(gaps, 0.95)),
        fallbacks,
        [answer.ids for answer in answers],
        steps,
        log,
        workers,
        time.time() - time.monotonic(),
    )


def by_law(load: np.ndarray) -> tuple[np.ndarray, float]:
    """Seconds of each step by `LAW`, and the share of them that ranks wait for each other; `load` is float64[K, G]."""
    heaviest, total = load.max(axis=1), load.sum(axis=1)
    step_s = LAW.overhead_s + LAW.per_token_s * heaviest
    size = np.full(len(load), float(load.shape[1]))
    idle = idle_share(heaviest, total, size, LAW.overhead_s / LAW.per_token_s)
    return step_s, float((idle * step_s).sum() / step_s.sum())


def itl_p95_s(rounds: list[Judged]) -> float:
    """95th percentile over the tokens of all these rounds of the seconds of their steps, by `LAW`."""
    step_s = np.concatenate([by_law(found.steps.load)[0] for found in rounds])
    return weighted_p95(step_s, np.concatenate([found.steps.produced.sum(axis=1) for found in rounds]))


def weighted_p95(values: np.ndarray, weights: np.ndarray) -> float:
    """The least value that 95 % of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][np.searchsorted(share, 0.95)])


@dataclass(frozen=True, slots=True, eq=False)
class Mirrored:
    """The gateway's own picture of a round's steps.

    Args:
        load: float64[K, G], KV tokens of each worker before each step's own tokens, as the mirror had them.
        seconds: float64[K], between steps. ended_s: float64[K], Unix time at which each was complete.
    """

    load: np.ndarray
    seconds: np.ndarray
    ended_s: np.ndarray

    @property
    def idle_share(self) -> float:
        """At the barrier, by `LAW`."""
        return by_law(self.load)[1]

    def off(self, truth: GroupSteps) -> np.ndarray:
        """float64[G], how far each worker's load is off: mean difference over mean load, each step beside the engine's last one.

        A step is beside the one that the engine had ended last when the gateway saw it complete.
        """
        ends = (truth.start_s + truth.seconds).max(axis=1)
        beside = truth.load[np.maximum(0, np.searchsorted(ends, self.ended_s, side="right") - 1)]
        return np.abs(self.load - beside).mean(axis=0) / beside.mean(axis=0)


def mirrored(found: Judged) -> Mirrored:
    """Play the events of a round's decision log to a dispatcher and look at what it makes of each step."""
    names, records = found.workers, read_log(found.log)
    header = next(records)
    assert isinstance(header, Header)
    slow = frozenset(r.decision for r in read_log(found.log) if isinstance(r, Round) and r.fallback == "budget")
    dispatcher = Dispatcher(header.policy, predictor=header.predictor, settings=header.settings, overruns=slow)
    loads: list[list[float]] = []
    seconds: list[float] = []
    ended_s: list[float] = []

    def look() -> None:
        dispatcher.count()
        (group,) = dispatcher.parts.barriers.steps
        at = dispatcher.parts.barriers.all.at
        if at.steps[0] > len(loads):
            seconds.append(at.step_s[0])
            ended_s.append(found.unix_s + at.counted_s[0])
            loads.append([group.load[dispatcher.mirror.place[name]] for name in names])

    for record in records:
        if isinstance(record, Chunks):
            times = dict(record.times)
            for place, row in enumerate(record.rows):
                dispatcher.now_s = times.get(place, dispatcher.now_s)
                dispatcher.produced(row, record.tokens[place] if record.tokens else 1)
                look()
        elif not isinstance(record, Header | Checkpoint | Done | Round):
            dispatcher.handle(record)
            if len(dispatcher.mirror.workers) == len(names):
                look()
    return Mirrored(np.array(loads), np.array(seconds), np.array(ended_s))
