"""A soak of the gateway: engines that fail in every way, clients that leave at every stage, and what is left behind.

Four emulated engines of one rank each refuse, stall, die in mid-stream, answer 503, send garbage, end too early or hand a
request back; one client in eight leaves: at once, while it waits, after its first tokens. At the end every request has ended
once, with a whole answer or a clean error; every whole answer is the text the emulated model gives for its prompt; nothing
is left in mirror, pool or sockets; memory has stayed where it was after a tenth of the run; and the decision log gives the
same decisions in a process of its own. It cannot show what real engines do when they fail, nor a network.

    python benchmarks/soak_gateway.py [--requests 100000] [--seed 0] [--least-decisions 10000]
    python benchmarks/soak_gateway.py --requests 22000 --leaves 0.95 --well     (20,900 cancels, engines that never fail)
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from evenstep import streams
from evenstep.emulator import tokens
from evenstep.engines.metrics.prometheus import lines, wanted
from evenstep.gateway.operate.compiling import compile_all
from evenstep.load.client import Call
from evenstep.load.models import get
from evenstep.load.processes import beside, free_ports, resident_mb
from evenstep.load.prompts import Prompts
from evenstep.load.run import Outcome, Run, timed
from evenstep.load.settings import LoadSettings, Target
from evenstep.request import Trace

ENGINES, SLOTS, USERS = 4, 8, 40
LEAVES = 0.125
#: Different prompts. A gateway remembers the latest 32 outputs of each: with so few of them that is full after a tenth of
#: 100,000 requests, and what still grows is a leak.
PROMPTS = 300
FAULTS = (
    "die:after_tokens=3,share=0.01,count=0",
    "status:status=503,share=0.01,count=0",
    "refuse:share=0.005,count=0",
    "malformed:after_tokens=2,share=0.005,count=0",
    "cut:after_tokens=4,share=0.005,count=0",
    "error-event:after_tokens=2,share=0.005,count=0",
    "recomputed:after_tokens=5,share=0.01,count=0",
    "html:share=0.002,count=0",
    "empty:share=0.002,count=0",
    "stall:after_tokens=1,share=0.001,count=0",
)
#: Connections that an engine may have more at the end than at the beginning: the gateway's for metrics.
KEPT = 1
#: How a request may end at a client that stayed: whole, or told so. Anything else was lost without a word.
CLEAN = ("", "error-event", "status-502", "status-503", "status-504")
SETTLED = (
    "evenstep_requests_present",
    "evenstep_pool_depth",
    "evenstep_worker_active_requests",
    "evenstep_generations",
    "evenstep_passing",
    "evenstep_connections",
)


@dataclass
class Found:
    """What a soak saw.

    Args:
        requests: that were sent.
        ended: how each ended at its client, counted by kind.
        unclean: those that ended in none of the ways that are allowed.
        wrong: whole answers whose text is not what the model gives.
        left: what is not 0 at the end, by name.
        counted: requests the gateway counts as ended.
        unheard: clients that left before any byte of an answer; a gateway need not have had their request.
        recomputed, retried: requests that went on elsewhere after their first token, or before it.
        memory_mb: of the gateway after each tenth of the run; start_mb: before the first request.
        sockets: of the gateway when nothing runs any more, less those that were open before.
        decisions: in the log; replayed: whether they came out the same in a process of its own.
        difference: the first decision that did not, or why there are none.
        seconds: of the run.
    """

    requests: int
    ended: Counter = field(default_factory=Counter)
    unclean: Counter = field(default_factory=Counter)
    wrong: int = 0
    left: dict = field(default_factory=dict)
    counted: int = 0
    unheard: int = 0
    recomputed: int = 0
    retried: int = 0
    memory_mb: list = field(default_factory=list)
    start_mb: float = 0.0
    sockets: int = 0
    decisions: int = 0
    replayed: bool = False
    difference: str = ""
    seconds: float = 0.0

    def broken(self, *, memory: bool = True) -> list[str]:
        """The promises that were not kept; `memory` = whether the run was long enough to judge it."""
        growth = self.memory_mb[-1] / self.memory_mb[0] - 1
        return [
            text
            for text, is_broken in (
                (
                    f"{sum(self.unclean.values())} requests were lost: {dict(self.unclean)}",
                    bool(self.unclean),
                ),
                (f"{self.wrong} answers are not the model's", self.wrong > 0),
                (
                    f"{self.counted} requests ended in the gateway, {self.requests} were sent, {self.unheard} left at once",
                    not self.requests - self.unheard <= self.counted <= self.requests,
                ),
                (f"left behind: {self.left}", bool(self.left)),
                (f"{self.sockets} sockets are left", self.sockets > ENGINES + 2),
                (f"memory grew by {100 * growth:.1f} %", memory and growth > 0.05),
                (f"the log's decisions came out otherwise: {self.difference}", not self.replayed),
            )
            if is_broken
        ]


def trace_of(requests: int, seed: int) -> Trace:
    """Short requests, so that many fit into a soak: 4 to 60 prompt tokens, 1 to 24 output tokens, prompts that recur."""
    rows = np.arange(requests, dtype=np.int64)
    key = 1 + (streams.uniform(seed, "soak-key", rows) * PROMPTS).astype(np.int64)
    prompt = 4 + (streams.uniform(seed, "soak-prompt", key) * 57).astype(np.int64)
    output = 1 + (streams.uniform(seed, "soak-output", rows) * 24).astype(np.int64)
    return Trace(prompt, output, prompt_key=key, name="soak")


class Leaving:
    """Clients that leave: which ones, and when."""

    def __init__(self, seed: int, share: float) -> None:
        self.seed, self.share = seed, share
        self.gone: set[int] = set()

    def started(self, row: int, call: Call) -> None:
        if streams.uniform(self.seed, "soak-leaves", row) >= self.share:
            return
        stage = streams.uniform(self.seed, "soak-stage", row)
        loop = asyncio.get_running_loop()
        if stage < 0.25:
            loop.call_soon(self.leave, row, call)  # before the request is out, or just after
        elif stage < 0.6:
            loop.call_later(0.2 * (stage - 0.25), self.leave, row, call)  # in the pool, or between head and first token
        else:
            self.after(row, call, 1 + int(20 * (stage - 0.6)))  # in mid-stream

    def after(self, row: int, call: Call, wanted_tokens: int) -> None:
        if call.is_over:
            return
        if call.answer.tokens >= wanted_tokens:
            self.leave(row, call)
        else:
            asyncio.get_running_loop().call_later(0.002, self.after, row, call, wanted_tokens)

    def leave(self, row: int, call: Call) -> None:
        if not call.is_over:
            self.gone.add(row)
            call.cancel()


def expected_crc(body: bytes, output_tokens: int, start: int) -> int:
    """CRC-32 of the text the emulated model gives for a prompt."""
    prompt = json.loads(body)["prompt"]
    state = tokens.state_of(np.array(tokens.tokenise(prompt), np.int64), start)
    found = 0
    for _ in range(output_tokens):
        token = tokens.word(tokens.drawn(state))
        state = tokens.after(state, token)
        found = zlib.crc32(tokens.TEXT[token].encode(), found)
    return found


def figures(target: Target, names: tuple[str, ...]) -> dict[str, float]:
    """Sums of some metrics of a page."""
    found = dict.fromkeys(names, 0.0)
    for line in lines(get(target, "/metrics")[1], wanted(names)):
        found[line.name] += line.value
    return found


def sockets(pid: int) -> int:
    """Sockets a process holds."""
    held = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            held += str(link.readlink()).startswith("socket:")
        except OSError:
            continue
    return held


def soak(
    requests: int, seed: int = 0, policy: str = "best", leaves: float = LEAVES, faults: tuple[str, ...] = FAULTS
) -> Found:
    """Run it: a share `leaves` of the clients leaves, and engines have these faults."""
    gateway, admin, *ports = free_ports(2 + ENGINES)
    found, pids = Found(requests), list[int]()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for port in ports:
            words = [
                "emulate",
                "--port",
                str(port),
                "--slots",
                str(SLOTS),
                "--speed",
                "5",
                "--per-token-s",
                "1e-6",
            ]
            options = [f"--fault={fault}" for fault in faults]
            pids.append(stack.enter_context(beside([*words, *options], port, "/health", 60.0)))
        log = Path(folder) / "decisions.evlog"
        config = {
            "version": 1,
            "listen": {"port": gateway},
            "admin": {"port": admin},
            "policy": policy,
            "slots": SLOTS,
            "workers": [{"url": f"http://127.0.0.1:{port}"} for port in ports],
            "engines": {"silence_s": 1.0, "first_byte_s": 5.0, "idle_s": 5.0},
            "dispatch": {"cooldown_s": 0.2},
            "decisions": {"path": str(log)},
        }
        compile_all(policy, "")  # a gateway that changes over to compiled code meanwhile would count as memory that grows
        path = Path(folder) / "gateway.yaml"
        path.write_text(json.dumps(config))
        pid = stack.enter_context(beside(["serve", "--config", str(path)], gateway, "/readyz", 600.0))
        page = Target("127.0.0.1", admin, False, "")
        before = [sockets(one) for one in pids]
        driven(found, pid, gateway, Leaving(seed, leaves))
        settled(found, page, [Target("127.0.0.1", port, False, "") for port in ports], pid)
        for number, (one, open_before) in enumerate(zip(pids, before, strict=True)):
            if (more := sockets(one) - open_before) > KEPT:
                found.left[f"engine {number} sockets"] = more
        stack.close()
        replayed(found, log)
    return found


def driven(found: Found, pid: int, gateway: int, leaving: Leaving) -> None:
    """Send everything; what clients saw, and how the gateway's memory went."""
    seed = leaving.seed
    trace = trace_of(found.requests, seed)
    settings = LoadSettings(source="soak", url=f"http://127.0.0.1:{gateway}", closed=USERS, seed=seed, timeout_s=60.0)
    before, memory = sockets(pid), found.memory_mb
    found.start_mb = resident_mb(pid)

    def watch(at) -> None:
        if at.done >= found.requests / 10 * (len(memory) + 1):
            memory.append(resident_mb(pid))

    begun = time.monotonic()
    run = Run(timed(trace, settings), settings, "emulated", watch, leaving.started)
    outcome: Outcome = asyncio.run(run.whole())
    found.seconds = time.monotonic() - begun
    memory.append(resident_mb(pid))
    found.sockets = -before
    prompts, start = Prompts(trace, settings, "emulated"), tokens.drawn(0)
    records = outcome.records
    for row, error in enumerate(records.error):
        found.ended[error or "whole"] += 1
        found.unheard += error == "cancelled" and records.status[row] == 0
        if error not in CLEAN and not (error == "cancelled" and row in leaving.gone):
            found.unclean[error] += 1
        if not error:
            size = int(trace.output_tokens[row])
            found.wrong += int(records.crc[row]) != expected_crc(prompts.body(row), size, start)


def settled(found: Found, page: Target, engines: list[Target], pid: int) -> None:
    """What is left when nothing should be, in the gateway and in the engines."""
    busy = ("vllm:num_requests_running", "vllm:num_requests_waiting")
    end = time.monotonic() + 10.0
    while True:
        left = figures(page, SETTLED)
        for number, engine in enumerate(engines):
            left |= {f"engine {number} {name}": value for name, value in figures(engine, busy).items()}
        found.left = {name: value for name, value in left.items() if value}
        if not found.left or time.monotonic() > end:
            break
        time.sleep(0.2)
    time.sleep(6.0)  # until unused connections to engines are closed
    counted = figures(page, ("evenstep_requests_total", "evenstep_recompute_total", "evenstep_retries_total"))
    found.counted, found.recomputed, found.retried = (int(value) for value in counted.values())
    found.sockets += sockets(pid)


def replayed(found: Found, log: Path) -> None:
    """The decisions of the log once more, in a process of its own."""
    words = [sys.executable, "-m", "evenstep", "replay", str(log), "--format", "json"]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    found.replayed = told.returncode == 0
    if found.replayed:
        found.decisions = json.loads(told.stdout)["decisions"]
    else:
        found.difference = (told.stdout or told.stderr)[-2000:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", default="best")
    parser.add_argument("--leaves", type=float, default=LEAVES, help="share of the clients that leave")
    parser.add_argument("--well", action="store_true", help="engines that never fail")
    parser.add_argument("--least-decisions", type=int, default=1, help="fail with fewer decisions in the replayed log")
    asked = parser.parse_args()
    found = soak(asked.requests, asked.seed, asked.policy, asked.leaves, () if asked.well else FAULTS)
    print(f"{found.requests:,} requests in {found.seconds:.0f} s; ended: {dict(found.ended.most_common())}")
    print(f"tried elsewhere before the first token {found.retried:,} times, continued elsewhere {found.recomputed:,} times")
    print(f"counted by the gateway {found.counted:,}; {found.unheard:,} clients left before any answer")
    print(f"left behind: {found.left or 'nothing'}; sockets {found.sockets:+d}")
    tenths = ", ".join(f"{mb:.0f}" for mb in found.memory_mb)
    print(f"memory of the gateway, MB: {found.start_mb:.0f} before the first request, after each tenth: {tenths}")
    print(f"{found.decisions:,} decisions in the log, {'the same' if found.replayed else 'not the same'} when replayed")
    broken = found.broken()
    if found.decisions < asked.least_decisions:
        broken.append(f"{found.decisions:,} decisions in the log; expected at least {asked.least_decisions:,}")
    print("\n".join(broken) if broken else "every promise kept")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
