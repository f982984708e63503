"""Every hypothesis strategy of the test suite: nobody else builds random views, traces or streams."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from tests.oracles.engine import batch_of
from tests.profiles import FULL

from evenstep.cost.batch import Batch
from evenstep.engines.view import UsageOptions
from evenstep.measure.records import Conditions, RequestTable, StepTable, Totals, columns
from evenstep.request import PrefixBlocks, Trace
from evenstep.routing.view import RoutingView
from evenstep.scheduling.view import EngineView
from evenstep.sim.cluster.drift import Drift, Profiles, rounded
from evenstep.sim.cluster.simulation import Cluster, Outage
from evenstep.sim.engine.simulation import Engine


def examples(full: int, fast: int | None = None) -> settings:
    """So many examples in `make test-all`, and `fast`, else a third of them, in `make test`."""
    in_full = settings.default.max_examples >= FULL
    return settings(max_examples=full if in_full else fast or full // 3, deadline=None)


# --- routing views -------------------------------------------------------------------------------------------


def _read_only(values: list[Any], kind: type, shape: tuple[int, ...] | None = None) -> Any:
    array = np.array(values, dtype=kind)
    if shape is not None:
        array = array.reshape(shape)
    array.setflags(write=False)
    return array


@st.composite
def routing_views(
    draw: st.DrawFn,
    *,
    kv_limited: bool | None = None,
    horizon: int = 0,
    memory: int = 0,
    workers: tuple[int, int] = (1, 8),
    waiting: tuple[int, int] = (0, 12),
    groups: tuple[int, int] = (1, 2),
    equal_slots: bool = False,
    cached: bool = False,
    keys: int = 0,
) -> RoutingView:
    """Consistent routing views of 1..8 workers in 1..2 groups with 0..12 waiting requests.

    KV loads are whole (or eighths) so that sums are exact; requests are oldest first, ids ascend.

    Args:
        kv_limited: True = finite `kv_free`, False = inf, None = either.
        horizon: H; `projections` has H+1 columns, column 0 is `load`.
        memory: words of `memory`, all >= 0.
        workers, waiting, groups: smallest and largest count, both included.
        equal_slots: every worker has the same number of slots, so ``running + queued + free_slots`` is constant.
        cached: whole tokens of every prompt are cached on every worker; else nothing is known.
        keys: requests share so many keys; 0 = each has its own.
    """
    G = draw(st.integers(*workers))
    W = draw(st.integers(*waiting))
    n_groups = min(G, draw(st.integers(*groups)))
    unit = draw(st.sampled_from([1.0, 1.0, 0.125]))

    def ints(low: int, high: int, count: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    def tokens(high: int, count: int) -> list[float]:
        return [unit * x for x in ints(0, int(high / unit), count)]

    small = draw(st.booleans())  # few different sizes: many ties
    size_limit = 6 if small else 4000
    slots = draw(st.integers(1, 6))
    free = ints(0, slots if equal_slots else 4, G)
    queued = ints(0, 2, G) if draw(st.booleans()) else [0] * G
    running = [max(0, slots - f - q) if equal_slots else r for f, q, r in zip(free, queued, ints(0, 6, G), strict=True)]
    if equal_slots:
        queued = [slots - f - r for f, r in zip(free, running, strict=True)]
    load = [x if r else 0.0 for x, r in zip(tokens(20 if small else 20_000, G), running, strict=True)]
    queued_load = [x if q else 0.0 for x, q in zip(tokens(2 * size_limit, G), queued, strict=True)]
    limited = draw(st.booleans()) if kv_limited is None else kv_limited
    kv_free = tokens(3 * size_limit, G) if limited else [math.inf] * G
    projections = [[x, *tokens(20 if small else 20_000, horizon)] for x in load]
    mean_wait_s = draw(st.sampled_from([0.0, 0.5, 2.0]))
    waited = sorted((x / 4 for x in ints(0, 200, W)), reverse=True)
    ids = sorted(draw(st.lists(st.integers(0, 10_000), min_size=W, max_size=W, unique=True)))
    steps = [float(x) if x else math.nan for x in ints(0, 500, W)]
    costs = [1e-7] * G if draw(st.booleans()) else [1e-7 * (1 + x) for x in ints(0, 3, G)]
    sizes = [max(x, unit) for x in tokens(size_limit, W)]
    prefixes = [x / 4 * size for size in sizes for x in ints(0, 4, G)] if cached else []
    return RoutingView(
        decision=draw(st.integers(0, 1000)),
        seed=draw(st.integers(0, 3)),
        now_s=256.0,
        mean_wait_s=mean_wait_s,
        group=_read_only(list(range(n_groups)) + ints(0, n_groups - 1, G - n_groups), np.int64),
        queued=_read_only(queued, np.int64),
        queued_load=_read_only(queued_load, np.float64),
        load=_read_only(load, np.float64),
        free_slots=_read_only(free, np.int64),
        running=_read_only(running, np.int64),
        kv_free=_read_only(kv_free, np.float64),
        seconds_per_token=_read_only(costs, np.float64),
        waiting_id=_read_only(ids, np.int64),
        waiting_load=_read_only(sizes, np.float64),
        waited_s=_read_only(waited, np.float64),
        waiting_class=_read_only(ints(0, 2, W), np.int64),
        waiting_key=_read_only([i % keys for i in ids] if keys else ids, np.int64),
        waiting_steps=_read_only(steps, np.float64),
        projections=_read_only(projections, np.float64, (G, horizon + 1)),
        growth=_read_only([float(h) for h in range(horizon + 1)], np.float64),
        cached_tokens=_read_only(prefixes, np.float64, (W, G) if cached else (0, 0)),
        memory=_read_only(ints(0, 9, memory), np.int64),
    )


# --- record tables -------------------------------------------------------------------------------------------


@st.composite
def recorded_tables(draw: st.DrawFn) -> tuple[Conditions, StepTable, RequestTable, Totals]:
    """Tables of a run of 1..2 barrier groups: consistent row by row, of random loads, waits and fullness."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)))
    slots, seed = draw(st.integers(1, 3)), draw(st.integers(0, 2**32 - 1))
    steps, requests = draw(st.integers(1, 60)), draw(st.integers(1, 60))
    random = np.random.default_rng(seed)
    total = slots * sum(sizes)
    group = random.integers(0, len(sizes), steps)
    loads = [random.integers(1, 50, sizes[g]).astype(float) for g in group]
    envelope, load_sum, load_min = (np.array([f(x) for x in loads]) for f in (np.max, np.sum, np.min))
    busy = np.where(random.random(steps) < draw(st.sampled_from([0.1, 0.5, 0.9])), total, max(1, total // 2))
    start = np.cumsum(random.random(steps))
    step_table = StepTable(
        group,
        np.arange(steps),
        start,
        1 + envelope / 8,
        envelope,
        load_sum,
        load_min,
        envelope / 8,
        load_sum / 8,
        busy // len(sizes),
        busy,
        busy * 0,
        busy,
        load_sum + 1,
        load_sum + 2,
    )
    visible, wait = np.sort(random.random(requests)) * 20, random.random(requests) * 5
    output = random.integers(1, 40, requests)
    first = visible + wait + 0.25
    request_table = RequestTable(
        random.permutation(requests),
        random.integers(0, sum(sizes), requests),
        random.integers(1, 5000, requests),
        output,
        visible,
        visible + wait,
        first,
        first + output * 0.3,
        np.arange(requests),
        np.arange(requests) + output - 1,
        random.integers(0, 2, requests),
        random.integers(0, 3, requests) if draw(st.booleans()) else None,
    )
    makespan = float(max((start + step_table.duration_s).max(), request_table.finished_s.max(), 150.0 * steps))
    totals = Totals(
        requests,
        int(output.sum()),
        steps,
        steps,
        makespan,
        float(load_sum.sum()),
        int(busy.sum()),
        int(request_table.restarts.sum()),
        0,
    )
    conditions = Conditions(sum(sizes), slots, total, sizes, (1.0,) * len(sizes), 0.125, "timed", 0, 0, "fcfs")
    return conditions, step_table, request_table, totals


def cut(draw: st.DataObject, table: Any) -> list[Any]:
    """A record table cut into chunks at random places; some chunks may be empty."""
    places = sorted(draw.draw(st.lists(st.integers(0, table.rows), max_size=5)))
    ends = [0, *places, table.rows]
    return [type(table)(**{name: column[a:b] for name, column in columns(table).items()}) for a, b in pairwise(ends)]


# --- small traces and clusters -------------------------------------------------------------------------------


@st.composite
def small_traces(draw: st.DrawFn, *, rows: tuple[int, int] = (1, 24), sessions: bool | None = None) -> Trace:
    """Traces of 1..24 short requests: few different lengths, many equal times.

    Args:
        rows: smallest and largest number of requests, both included.
        sessions: True = sessions with predecessors and think times, False = none, None = either.
    """
    N = draw(st.integers(*rows))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    longest, largest = draw(st.sampled_from([(3, 4), (12, 30), (40, 2000)]))
    columns: dict[str, Any] = {
        "prompt_tokens": random.integers(1, largest + 1, N),
        "output_tokens": random.integers(1, longest + 1, N),
        "arrival_s": np.cumsum(random.integers(0, 4, N) * draw(st.sampled_from([0.0, 0.25, 0.3, 5.0, 100.0]))),
    }
    if draw(st.booleans()):
        columns["request_class"] = random.integers(0, 3, N)
        columns["prompt_key"] = random.integers(0, 3, N)
        columns["max_tokens"] = random.integers(0, 50, N)
    if draw(st.booleans()) if sessions is None else sessions:
        session = random.integers(-1, draw(st.integers(1, 4)), N)
        columns["session"], columns["after"] = session, np.full(N, -1, np.int64)
        columns["think_s"] = random.integers(0, 4, N) * draw(st.sampled_from([0.0, 0.5, 0.7]))
        for row in range(N):  # mostly one after the other, sometimes several after one
            earlier = np.flatnonzero(session[:row] == session[row])
            if session[row] >= 0 and earlier.size and random.random() < 0.8:
                columns["after"][row] = earlier[-1] if random.random() < 0.8 else random.choice(earlier)
    return Trace(**columns)


@st.composite
def with_blocks(draw: st.DrawFn, trace: Trace) -> Trace:
    """The trace with prefix blocks: few different ones, some prompts without any, the last block seldom full."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.sampled_from([1, 4, 64]))
    counts = -(-trace.prompt_tokens // size) % 50 * (random.random(len(trace)) < 0.8)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    depth = np.concatenate([np.arange(n) for n in counts]) if len(counts) else offsets[:0]
    ids = 10 * depth + random.integers(0, draw(st.integers(1, 3)), int(offsets[-1]))
    blocks = PrefixBlocks(ids.astype(np.int64), offsets, size, draw(st.sampled_from(["session", "global"])))
    return replace(trace, prefix_blocks=blocks)


def _profiles(random: np.random.Generator, rows: int) -> Profiles:
    offsets = np.concatenate([[0], np.cumsum(random.integers(1, 9, rows))])
    values = random.integers(0, 40, int(offsets[-1])) * random.choice([0.25, 0.3, 1.0])
    return Profiles(values, offsets)


@st.composite
def drifts(draw: st.DrawFn, *, rows: int) -> Drift:
    """Every kind of drift, for a trace of so many rows: linear, speculative, a sequence, profiles."""
    kind = draw(st.sampled_from(["one", "one", "none", "part", "speculative", "sequence", "profiles"]))
    if kind == "sequence":
        return Drift(
            sequence=tuple(draw(st.lists(st.sampled_from([-3.0, -0.5, 0.0, 0.1, 1.0, 7.0]), min_size=1, max_size=5)))
        )
    if kind == "profiles":
        return Drift(profiles=_profiles(np.random.default_rng(draw(st.integers(0, 2**32 - 1))), rows))
    if kind == "speculative":
        return Drift(growth=float(draw(st.integers(1, 3))), tokens_per_step=draw(st.integers(2, 3)))
    return Drift(growth={"one": 1.0, "none": 0.0, "part": 0.3}[kind])


@st.composite
def clusters(draw: st.DrawFn, trace: Trace, *, groups: tuple[int, int] = (1, 3), plain: bool = False) -> Cluster:
    """Fleets of 1..5 workers in up to three groups, with every way requests reach them, for this trace.

    KV memory holds every request alone, and every lost worker comes back, so that a policy that holds nothing for
    ever can end the run.

    Args:
        groups: smallest and largest number of barrier groups.
        plain: no outages, no KV limit, no queues, decoding at one token a step.
    """
    sizes = draw(st.lists(st.integers(1, 3), min_size=groups[0], max_size=groups[1]))
    G = sum(sizes)
    options: dict[str, Any] = {
        "workers": G,
        "slots": draw(st.integers(1, 4) | st.tuples(*[st.integers(1, 4)] * G)),
        "groups": tuple(sizes) if len(sizes) > 1 or draw(st.booleans()) else (),
        "arrivals": draw(st.sampled_from(["saturated", "saturated", "timed", "closed"])),
        "pool": draw(st.integers(1, 12)),
        "users": draw(st.integers(0, 6)),
        "think_s": draw(st.sampled_from([*([None] * 3 if trace.session is not None else []), 0.0, 0.5, 2.3])),
    }
    if options["arrivals"] == "timed" and draw(st.booleans()):
        options |= {
            "prefill_base_s": draw(st.sampled_from([0.0, 0.5])),
            "prefill_per_token_s": draw(st.sampled_from([0.0, 0.1])),
        }
    options["may_hold"] = draw(st.booleans())
    if plain:
        return Cluster(**options)
    options |= {
        "dispatch": draw(st.sampled_from(["pool", "pool", "instant"])),
        "queue_depth": draw(st.sampled_from([0, 0, 1, 3, -1])),
        "drift": draw(drifts(rows=len(trace))),
    }
    if draw(st.integers(0, 2)) == 0:
        heaviest = _heaviest(trace, options["drift"])
        options["kv_tokens"] = heaviest * draw(st.sampled_from([1.0, 1.5, 3.0]))
        options["kv_reserve"] = draw(st.sampled_from([0.0, 1.0, 2.5]))
    if draw(st.integers(0, 2)) == 0:
        options["outages"] = draw(outages(workers=G))
    return Cluster(**options)


@st.composite
def outages(draw: st.DrawFn, *, workers: int) -> tuple[Outage, ...]:
    """Losses of some workers at early steps, each with a return; in any order."""
    lost: list[Outage] = []
    for worker in draw(st.lists(st.integers(0, workers - 1), min_size=1, max_size=4, unique=True)):
        step = draw(st.integers(0, 12))
        lost += [Outage(step, worker), Outage(step + draw(st.integers(1, 8)), worker, back=True)]
    return tuple(draw(st.permutations(lost)))


def _heaviest(trace: Trace, drift: Drift) -> float:
    """KV tokens of the largest load any request of the trace comes to."""
    if drift.profiles is not None:
        return max(1.0, *(rounded(x) for x in drift.profiles.values))
    gains = drift.gains(int(drift.steps(trace).max()) - 1)
    return float(max(s + gains[:k].max() for s, k in zip(trace.prompt_tokens, drift.steps(trace), strict=True)))


# --- traces of any shape -------------------------------------------------------------------------------------


@st.composite
def traces(
    draw: st.DrawFn,
    *,
    rows: tuple[int, int] = (1, 30),
    timed: bool | None = None,
    sessions: bool | None = None,
    blocks: bool | None = None,
) -> Trace:
    """Traces that keep every promise of `Trace`, with any of its optional columns.

    Args:
        rows: smallest and largest number of rows.
        timed: with times, without, or either (None); times have ties.
        sessions: with sessions, links and think times, without, or either.
        blocks: with prefix blocks, without, or either.
    """
    count = draw(st.integers(*rows))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns: dict[str, Any] = {
        "prompt_tokens": random.integers(1, 2000, count),
        "output_tokens": random.integers(1, 300, count),
    }
    if draw(st.booleans()) if timed is None else timed:
        columns["arrival_s"] = np.concatenate([[0.0], np.cumsum(random.integers(0, 4, count - 1) / 4)])
    if draw(st.booleans()) if sessions is None else sessions:
        session = random.integers(-1, 4, count)
        last: dict[int, int] = {}
        after = np.full(count, -1, np.int64)
        for row, number in enumerate(session.tolist()):
            if number >= 0:
                after[row] = last.get(number, -1)
                last[number] = row
        columns |= {
            "session": session,
            "after": after,
            "think_s": random.integers(0, 8, count) / 8 * (after >= 0),
        }
    for name, high in (
        ("request_class", 3),
        ("max_tokens", 500),
        ("prompt_key", 9),
        ("output_low", 2),
        ("output_high", 900),
    ):
        if draw(st.booleans()):
            columns[name] = random.integers(0, high, count)
    if draw(st.booleans()) if blocks is None else blocks:
        offsets = np.concatenate([[0], np.cumsum(random.integers(0, 5, count))]).astype(np.int64)
        ids = random.integers(0, 40, int(offsets[-1]))
        columns["prefix_blocks"] = PrefixBlocks(ids, offsets, 16, draw(st.sampled_from(["session", "global"])))
    notes = tuple(draw(st.lists(st.text(max_size=12), max_size=2)))
    return Trace(**columns, name="made up", format="made-up", notes=notes)


# --- streams of engines --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EngineStream:
    """What an engine generates for one request, before it is written down: `written` is one way to say it.

    Args:
        chat: chat completions, else completions.
        prompt_ids: of the prompt.
        steps: (choice, token ids, text, finish_reason) in the order of the stream; None as text says nothing was decoded.
        choices: n.
        fingerprint: the engine's; empty has none.
    """

    chat: bool
    prompt_ids: tuple[int, ...]
    steps: tuple[tuple[int, tuple[int, ...], str | None, str | None], ...]
    choices: int
    fingerprint: str

    @property
    def tokens(self) -> int:
        return sum(len(ids) for _, ids, _, _ in self.steps)

    def events(self, asked: UsageOptions) -> list[bytes]:
        """The stream as vLLM 0.32 writes it, event by event."""
        counted, seen, out = [0] * self.choices, [False] * self.choices, []

        def usage(choice: int) -> dict[str, Any]:
            if not asked.continuous:
                return {}
            return {"usage": _counts(len(self.prompt_ids), counted[choice])}

        if self.chat:
            for choice in range(self.choices):
                body = _choice(choice, delta={"role": "assistant", "content": ""}, finish_reason=None)
                ids = {
                    "prompt_token_ids": list(self.prompt_ids) if asked.token_ids else None,
                    "prompt_text": None,
                }
                out.append(self._event([body], usage(choice) | ids))
        for choice, ids, text, reason in self.steps:
            counted[choice] += len(ids)
            if self.chat and text is None and reason is None and not asked.token_ids:
                continue
            told = {"token_ids": list(ids) if asked.token_ids else None}
            stop = {"stop_reason": None} if reason or not self.chat else {}
            if self.chat:
                body = _choice(choice, delta={} if text is None else {"content": text}, finish_reason=reason)
            else:
                first = asked.token_ids and not seen[choice]
                told = {"prompt_token_ids": list(self.prompt_ids) if first else None} | told
                body = {"index": choice, "text": text or "", "logprobs": None, "finish_reason": reason}
                seen[choice] = True
            stamp = {"system_fingerprint": self.fingerprint} if reason and self.fingerprint and not asked.usage else {}
            out.append(self._event([body | stop | told], usage(choice) | stamp))
        if asked.usage:
            stamp = {"system_fingerprint": self.fingerprint} if self.fingerprint else {}
            out.append(self._event([], {"usage": _counts(len(self.prompt_ids), sum(counted))} | stamp))
        return [*out, b"data: [DONE]\n\n"]

    def _event(self, choices: list[dict[str, Any]], rest: dict[str, Any]) -> bytes:
        head = {
            "id": "chatcmpl-7f" if self.chat else "cmpl-7f",
            "object": "chat.completion.chunk" if self.chat else "text_completion",
            "created": 1763766000,
            "model": "tiny",
        }
        return b"data: " + msgspec.json.encode(head | {"choices": choices} | rest) + b"\n\n"


def _choice(index: int, *, delta: dict[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _counts(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}


@st.composite
def chunk_streams(draw: st.DrawFn, *, choices: tuple[int, int] = (1, 3), chat: bool | None = None) -> EngineStream:
    """Streams of engines: several tokens in a chunk, text that looks like JSON of its own, silent chunks, n > 1."""
    is_chat = draw(st.booleans()) if chat is None else chat
    n = draw(st.integers(*choices))
    tricky = [
        '"usage":{}',
        ',"usage":{"completion_tokens":9}}',
        ',"token_ids":[1]',
        "\n\ndata: [DONE]\n\n",
        "é",
        "😀",
        "\\",
        "",
    ]
    text = st.one_of(st.sampled_from(tricky), st.text(max_size=6))
    if is_chat:
        text = st.one_of(st.none(), text)
    lives: list[list[Any]] = []
    for choice in range(n):
        parts = draw(st.lists(st.tuples(st.lists(st.integers(0, 999), min_size=1, max_size=3), text), max_size=5))
        life = [(choice, tuple(ids), said, None) for ids, said in parts]
        life.append((choice, (draw(st.integers(0, 9)),), draw(text), draw(st.sampled_from(["stop", "length"]))))
        lives.append(life)
    order = draw(st.permutations([c for c, life in enumerate(lives) for _ in life]))
    steps = tuple(lives[c].pop(0) for c in order)
    return EngineStream(
        chat=is_chat,
        prompt_ids=tuple(draw(st.lists(st.integers(0, 999), min_size=1, max_size=4))),
        steps=steps,
        choices=n,
        fingerprint=draw(st.sampled_from(["", "vllm-0.32.0-0a1b2c3d"])) if n == 1 else "",
    )


@st.composite
def pieces(draw: st.DrawFn, data: bytes, most: int = 8) -> list[bytes]:
    """The bytes cut anywhere into at most so many parts, some maybe empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=most - 1)))
    return [data[a:b] for a, b in pairwise([0, *cuts, len(data)])]


@dataclass(frozen=True)
class EmulatorStorm:
    """A group of emulated ranks and what happens to it; None = the group is woken, if it wants to be."""

    settings: Any
    events: list[Any]


@st.composite
def emulator_storms(draw: st.DrawFn) -> EmulatorStorm:
    """Arrivals, cancellations, fetches, pulls, deaths and wakings in any order, with little memory."""
    from evenstep.emulator.group import Arrived, Cancelled, Fetched, Killed, Pulled, Revived
    from evenstep.emulator.rank import Sequence
    from evenstep.emulator.settings import EmulatorSettings

    ranks, blocks = draw(st.integers(1, 3)), draw(st.integers(5, 12))
    settings = EmulatorSettings(
        ranks=ranks,
        slots=draw(st.integers(1, 4)),
        kv_tokens=4 * blocks,
        block_size=4,
        mean_output_tokens=0.0,
        prefill_per_token_s=0.0,
        token_budget=draw(st.sampled_from([0, 3, 9])),
        lease_s=5.0,
        prefix_caching=draw(st.booleans()),
    )
    events: list[Any] = []
    for key in range(draw(st.integers(1, 25))):
        prompt = draw(st.integers(1, 12))
        chain = [1000 + 100 * draw(st.integers(0, 2)) + i for i in range(prompt // 4)]
        one = Sequence(
            key=key,
            prompt=prompt,
            max_tokens=draw(st.integers(1, 8)),
            state=prompt,
            chain=chain if settings.prefix_caching else [],
            leased=draw(st.booleans()),
        )
        events.append(Arrived(one, draw(st.integers(0, ranks - 1)), draw(st.booleans())))
        known = st.integers(0, key)
        events += draw(
            st.lists(
                st.one_of(
                    st.none(),
                    st.none(),
                    st.builds(Cancelled, known, st.just("abort")),
                    st.builds(Pulled, known),
                    st.builds(Fetched, known, st.booleans()),
                    st.builds(Killed, st.integers(0, ranks - 1)),
                    st.builds(Revived, st.integers(0, ranks - 1)),
                ),
                max_size=4,
            )
        )
    return EmulatorStorm(settings, events)


@st.composite
def usual_streams(draw: st.DrawFn) -> EngineStream:
    """Streams as engines mostly write them: one choice, one token an event with few exceptions, any text."""
    text = st.one_of(st.sampled_from([" a", " b", "", '"', "\\", "\n", "é", "%d", "\x7f"]), st.text(max_size=3))
    ids = st.one_of(st.tuples(st.integers(0, 9999)), st.lists(st.integers(0, 9), min_size=1, max_size=2).map(tuple))
    steps = draw(st.lists(st.tuples(st.just(0), ids, text, st.none()), min_size=3, max_size=12))
    prompt = tuple(draw(st.lists(st.integers(0, 999), min_size=1, max_size=4)))
    return EngineStream(draw(st.booleans()), prompt, (*steps, (0, (7,), " end", "stop")), 1, "")


@st.composite
def engine_views(draw: Any, most: int = 12) -> EngineView:
    """One engine before an iteration, some requests running and some waiting, in memory that holds what they hold."""
    running, waiting = draw(st.integers(0, most // 2)), draw(st.integers(0, most // 2))
    count = max(running + waiting, 1)
    block, hold = draw(st.sampled_from([1, 4, 16])), draw(st.integers(0, 1))
    ints = st.lists(st.integers(1, 60), min_size=count, max_size=count)
    prompt, out = np.array(draw(ints)), np.array(draw(ints))
    share = np.array(draw(st.lists(st.floats(0, 1), min_size=count, max_size=count)))
    runs = np.arange(count) < running
    decoding = runs & (share > 0.4)
    produced = np.where(decoding, out, 0)
    prompt = prompt + (runs & ~decoding)
    prefilled = np.where(decoding, prompt + produced - 1, np.where(runs, 1 + (prompt - 2) * share, 0).astype(np.int64))
    left = prompt + produced - prefilled
    held = np.where(runs, prefilled + hold * decoding, 0)
    resident = -(-held // block) * block
    capacity = int(resident.sum()) + block * draw(st.integers(0, 12))
    low = np.array(draw(ints))
    rank = np.arange(count)
    return EngineView(
        iteration=draw(st.integers(0, 9)),
        seed=draw(st.integers(0, 9)),
        now_s=50.0,
        token_budget=draw(st.sampled_from([1, 7, 64, 1 << 40])),
        batch_limit=draw(st.sampled_from([1, 3, 1 << 40])),
        kv_capacity=capacity,
        kv_free=capacity - int(resident.sum()),
        block_tokens=block,
        hold_produced=hold,
        arrived=np.array([count]),
        memory=np.zeros(0, np.int64),
        request_id=rank,
        request_class=rank * 0,
        prompt_tokens=prompt,
        prefilled=prefilled,
        produced=produced,
        reached=produced * 0,
        lost_at=produced * 0,
        left=left,
        resident=resident,
        output_low=low,
        output_high=low + np.array(draw(ints)),
        evictions=rank * 0,
        arrival_s=rank.astype(float),
        running=runs,
        decoding=decoding,
        resident_limit=running + draw(st.sampled_from([0, 1, 2, 1 << 40])),
    )


@st.composite
def engine_runs(draw: Any, most: int = 30) -> tuple[Trace, Engine, int]:
    """A trace, an engine that can hold each of its requests alone, and a seed."""
    count = draw(st.integers(1, most))
    lengths = st.lists(st.integers(1, 40), min_size=count, max_size=count)
    prompt, output = np.array(draw(lengths)), np.array(draw(lengths))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.0, 0.01, 0.3]), min_size=count, max_size=count))
    low = np.maximum(output - np.array(draw(lengths)), 1)
    high = output + np.array(draw(lengths)) - 1
    if draw(st.booleans()):  # beliefs that do not hold the truth
        low, high = np.array(draw(lengths)), np.full(count, 40)
    block = draw(st.sampled_from([1, 4, 16]))
    overflow = draw(st.sampled_from(["recompute", "recompute", "restart", "swap"]))
    engine = Engine(
        token_budget=draw(st.sampled_from([0, 5, 64])),
        batch_limit=draw(st.sampled_from([0, 1, 4])),
        resident_limit=draw(st.sampled_from([None, None, 0, 1, 3, 8])),
        kv_tokens=draw(st.sampled_from([0, 96, 160, 400])),
        block_tokens=block,
        overflow=overflow,
        keeps_evicted=overflow == "recompute" and draw(st.booleans()),
        schedules_ahead=draw(st.booleans()),
        first_token=draw(st.sampled_from(["prefill", "decode"])),
        hold_produced=draw(st.booleans()),
        swap_s=(1e-6, 1e-4),
        recompute_s=(1e-9, 1e-5),
        overhead_s=1e-3,
    )
    trace = Trace(
        prompt_tokens=prompt,
        output_tokens=output,
        arrival_s=np.cumsum(gaps),
        output_low=low,
        output_high=high,
        request_class=np.arange(count) % 3,
    )
    return trace, engine, draw(st.integers(0, 5))


@st.composite
def batches(draw: Any) -> Batch:
    """One iteration's batch out of some requests."""
    count = draw(st.integers(1, 8))
    before = np.array(draw(st.lists(st.integers(0, 4000), min_size=count, max_size=count)))
    decoding = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    chunk = np.array(draw(st.lists(st.integers(1, 900), min_size=count, max_size=count)))
    return batch_of(before, np.where(decoding, 1, chunk), decoding)


# --- HTTP ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Message:
    """One HTTP message: its bytes, and what a reader has to find in them.

    Args:
        text: all bytes.
        body: what the framing carries.
        keep_alive: another message may follow on its connection.
        to_head: the answer to a HEAD request.
    """

    text: bytes
    body: bytes
    keep_alive: bool = True
    to_head: bool = False


_FIELDS = st.lists(
    st.sampled_from([b"X: 1", b"x-long: " + b"y" * 300, b"Accept:*/*", b"Trace: \t a \xff ", b"Upgrade: h2c", b"X:"]),
    max_size=4,
)


@st.composite
def _framed_bodies(draw: st.DrawFn, is_framed: bool) -> tuple[bytes, bytes, bytes]:
    """The line that says how long a body is, the bytes that follow the head, and what they carry."""
    if not is_framed:
        body = draw(st.binary(max_size=60))
        name = draw(st.sampled_from([b"Content-Length", b"content-length", b"CONTENT-LENGTH"]))
        return b"%b: %d" % (name, len(body)), body, body
    pieces = draw(st.lists(st.binary(min_size=1, max_size=30), max_size=4))
    ends = st.sampled_from([b"", b";ext", b';a="b c"'])
    text = b"".join(b"%x%b\r\n%b\r\n" % (len(one), draw(ends), one) for one in pieces)
    trailers = draw(st.sampled_from([b"", b"Trailer: x\r\n", b"A:1\r\nB: 2\r\n"]))
    return b"Transfer-Encoding: chunked", text + b"0\r\n" + trailers + b"\r\n", b"".join(pieces)


@st.composite
def http_requests(draw: st.DrawFn) -> Message:
    """Valid requests of all framings, old and new."""
    version = draw(st.sampled_from([b"1.1", b"1.1", b"1.0"]))
    method = draw(st.sampled_from([b"POST", b"GET", b"HEAD", b"PUT", b"DELETE"]))
    lines, text, body = [*draw(_FIELDS), b"Host: a:80"], b"", b""
    if draw(st.booleans()):
        line, text, body = draw(_framed_bodies(version == b"1.1" and draw(st.booleans())))
        lines.append(line)
    wish = draw(st.sampled_from([b"", b"Connection: close", b"Connection: Keep-Alive"]))
    lines += [wish] * bool(wish)
    first = b"%b /v1/x?y=%d HTTP/%b" % (method, draw(st.integers(0, 99)), version)
    keeps = b"Keep" in wish if version == b"1.0" else b"close" not in wish
    before = draw(st.sampled_from([b"", b"", b"\r\n"]))
    head = b"\r\n".join([first, *draw(st.permutations(lines)), b"", b""])
    return Message(before + head + text, body, keeps, method == b"HEAD")


@st.composite
def http_answers(draw: st.DrawFn) -> Message:
    """Valid answers whose end is in their bytes, with and without interim answers before them."""
    interim = draw(st.sampled_from([b"", b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 X\r\nA: b\r\n\r\n" * 2]))
    version = draw(st.sampled_from([b"1.1", b"1.1", b"1.0"]))
    status = draw(st.sampled_from([200, 200, 204, 304, 404, 500]))
    line, text, body = draw(_framed_bodies(version == b"1.1" and draw(st.booleans())))
    to_head = draw(st.booleans())
    if to_head or status in (204, 304):
        text = body = b""
    lines = [*draw(_FIELDS), line]
    wish = draw(st.sampled_from([b"", b"Connection: close", b"Connection: keep-alive"]))
    lines += [wish] * bool(wish)
    keeps = b"keep" in wish if version == b"1.0" else b"close" not in wish
    first = b"HTTP/%b %d Some words" % (version, status)
    head = b"\r\n".join([first, *draw(st.permutations(lines)), b"", b""])
    return Message(interim + head + text, body, keeps, to_head)
