"""A soak of the promises about retries: thousands of faults, and for every request how it ended and how often it was asked.

The gateway's data path runs in front of seven hostile engines, all in one process. Every second leg meets a fault: an end
too early, an error, garbage, silence, a hand-back before or after some tokens, a model that is denied. Some requests are
handed back for ever. Two engines answer from the start what is to go on (an operator describes them anew now and then, so
that they have to be found out again), one comes back with another model again and again, and three speak OpenAI's dialect,
so that nothing is counted. Clients ask for chats and completions, whole and as streams, and some leave.

A request may end complete, with an error, or refused. The verdict names what must not be: an end that is not said or not
there (silent, aborted, hung), text that is doubled or of other tokens (wrong), a limit that was not kept (silent), a request
asked more often than retries allow, and anything left behind. It cannot show what real engines do, nor a network.

    python benchmarks/soak_promises.py [--faults 5000] [--seeds 10] [--policy best]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import orjson

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.gateway.promises import client as judge
from tests.gateway.promises import engine as e

from evenstep import streams
from evenstep.dispatch.settings import Dispatch
from evenstep.dispatch.warming import warm
from evenstep.gateway.config.config import GatewayConfig, checked
from evenstep.gateway.config.sections import Engines, Listen
from evenstep.gateway.config.worker import Worker
from evenstep.gateway.server import Server

PLAIN, OTHER = "plain", "another"  # what is served beside `e.MODEL`
TOKENS, AT_ONCE, HUNG_S, RETRIES = 12, 24, 60.0, 3
SILENCE_S, ANEW = 1.0, 20
FAULTY, LEAVES, FOR_EVER, ASKS_OTHER = 0.5, 0.02, 0.02, 0.03
_HTML = e.answer_bytes(200, b"<html><body>It works!</body></html>", kind="text/html")
#: What a leg may meet; silences are dear in time, so there are few.
FAULTS = {
    "refused": e.raw(b"", close=True),
    "reset": e.cut(0, reset=True),
    "status 500": e.status(500),
    "status 503": e.status(503),
    "html": e.raw(_HTML),
    "empty stream": e.raw(e.STREAM + e.LAST),
    "role, then an end": e.after(0, end="last"),
    "clean end in mid-stream": e.after(5, end="last"),
    "[DONE] in mid-stream": e.after(2, e.chunk(b"data: [DONE]\n\n"), end="last"),
    "cut in mid-stream": e.after(5),
    "cut after a token": e.after(1),
    "cut before the last token": e.after(TOKENS - 1),
    "reset in mid-stream": e.after(5, end="reset"),
    "error event in mid-stream": e.after(5, e.event({"error": {"message": "broken", "code": 500}}), end="last"),
    "bad JSON in mid-stream": e.after(5, e.chunk(b"data: {oops\n\n"), end="last"),
    "handed back": e.handed_back(),
    "handed back after two tokens": e.handed_back(2),
    "the model denied": e.no_model,
    "silence in mid-stream": e.after(5, end="hang"),
}
_NAMES = tuple(FAULTS)


@dataclass
class Found:
    """What a soak saw.

    Args:
        seed: of it.
        faults: how often each was met.
        ended: how requests ended, counted by verdict.
        broken: what must not be, by what and with which request.
        most_asked: legs of the request that had most, less those that were handed back with new tokens.
        bound: how many it may have had.
        resent: legs that came once more, since the kept connection they came on broke at once: by HTTP's rules it may have
            been closed before they were read. They do not count.
        seconds: of the run.
    """

    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    most_asked: int = 0
    bound: int = 1 + RETRIES
    resent: int = 0
    seconds: float = 0.0


class Schedule:
    """What every leg of every request meets, by the seed and the request's number alone.

    Args:
        seed: of everything.

    Attributes:
        found: what was met.
        asked: legs by request; fruitful: those of them that do not count: handed back after new tokens, or sent once more.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.found = seed, Found(seed)
        self.asked: Counter[int] = Counter()
        self.fruitful: Counter[int] = Counter()
        self.calls = 0
        self.ignoring = set[str]()  # names of the workers that answer from the start
        self._dropped: dict[int, tuple[e.HostileEngine, bytes]] = {}  # by request, legs without a byte of an answer

    def chance(self, what: str, number: int, draw: int = 0) -> float:
        """A number in [0, 1) that is the same in every run of this seed."""
        return float(streams.uniform(self.seed, f"soak-{what}", number, draw=draw))

    async def answer(self, call: e.Call) -> None:
        """Answer one leg."""
        self.calls += 1
        engine, number = call.engine, int(call.header("x-request-id")[0].rpartition("-")[2])
        is_kept, dropped = call.connection.requests > 1, self._dropped.pop(number, None)
        if not is_kept and dropped == (engine, call.body):
            self.found.resent += 1
            self.fruitful[number] += 1
        self.asked[number] += 1
        if engine.name == "changing" and self.calls % 40 == 0:
            engine.serves = OTHER if engine.serves == e.MODEL else e.MODEL
        if self.chance("for-ever", number) < FOR_EVER:
            await self.meet(call, number, "handed back")
        elif call.first and engine.name.startswith("ignoring"):
            self.found.faults["answered from the start"] += 1
            await e.anew(call)
        elif self.chance("faulty", number, self.asked[number]) < FAULTY:
            fault = _NAMES[int(self.chance("fault", number, self.asked[number]) * len(_NAMES))]
            if is_kept and fault in ("refused", "reset"):
                self._dropped[number] = engine, call.body
            await self.meet(call, number, fault)
        else:
            await e.well(call)

    async def meet(self, call: e.Call, number: int, fault: str) -> None:
        """Answer one leg with a fault."""
        self.found.faults[fault] += 1
        if fault == "handed back after two tokens" and call.asked.get("stream"):
            self.fruitful[number] += 1
        await FAULTS[fault](call)


def request_of(schedule: Schedule, number: int) -> tuple[str, bytes]:
    """A request's model and bytes."""
    kind = schedule.chance("kind", number)
    model = OTHER if schedule.chance("other", number) < ASKS_OTHER else PLAIN if kind < 0.25 else e.MODEL
    chat = model != PLAIN and kind < 0.75
    prompt = {"messages": [{"role": "user", "content": "say it"}]} if chat else {"prompt": "say it"}
    stream = schedule.chance("stream", number) < 0.85
    body = {"model": model, **prompt, "max_tokens": TOKENS, "stream": stream}
    path = "/v1/chat/completions" if chat else "/v1/completions"
    return model, judge.request(orjson.dumps(body), f"X-Request-Id: soak-{number}", path=path)


async def one(schedule: Schedule, port: int, number: int) -> None:
    """One request from its beginning to its end."""
    found = schedule.found
    model, data = request_of(schedule, number)
    client = await judge.RawClient.to(port)
    try:
        async with asyncio.timeout(HUNG_S):
            client.send(data)
            if schedule.chance("leaves", number) < LEAVES:
                await client.until(lambda: client.received.count(b" w") >= 3 or client.finished)
                found.ended["left"] += 1
                return
            reply = await client.reply()
            verdict = judge.verdict(reply, TOKENS)
    except TimeoutError:
        verdict = "hung"
    finally:
        client.leave()
    found.ended[verdict] += 1
    if verdict not in ("complete", "error", "refused"):
        found.broken.append(f"request {number} of {model} ended {verdict}")


@asynccontextmanager
async def serving(schedule: Schedule, policy: str) -> AsyncIterator[Server]:
    """A gateway in front of all engines; at the end nothing may be left in it."""
    plan = e.Plan()
    plan.otherwise = schedule.answer
    names = ("well", "ignoring-0", "ignoring-1", "changing", "openai-0", "openai-1", "openai-2")
    engines = [e.HostileEngine(name, plan) for name in names]
    for engine in engines:
        engine.serves = PLAIN if engine.name.startswith("openai") else e.MODEL
        await engine.start()
    workers = [Worker(engine.url, slots=16, scraped=False) for engine in engines[:4]]
    workers += [Worker(engine.url, slots=16, scraped=False, engine="openai", models=[PLAIN]) for engine in engines[4:]]
    config = GatewayConfig(
        listen=Listen(port=0),
        workers=workers,
        policy=policy,
        dispatch=Dispatch(gather_ms=0.0, retries=RETRIES, backoff_s=0.002, backoff_cap_s=0.02, cooldown_s=0.02),
        engines=Engines(silence_s=SILENCE_S, first_byte_s=30.0),
    )
    server = Server(checked(config))
    await server.open()
    try:
        await server.ready()
        while server.gateway.front.not_ready() or server.gateway.pools.unknown:
            await asyncio.sleep(0.002)
        schedule.ignoring = {engine.url[7:] for engine in engines if engine.name.startswith("ignoring")}
        yield server
        await settled(schedule.found, server, engines)
    finally:
        await server.close()
        for engine in engines:
            engine.kill()


async def settled(found: Found, server: Server, engines: list[e.HostileEngine]) -> None:
    """See that nothing is left, in gateway and engines, ten seconds after the last request."""
    pools, until_s = server.gateway.pools.all, time.monotonic() + 10.0
    while time.monotonic() < until_s:
        left = sum(pool.requests for pool in pools) + sum(len(engine.open_calls) for engine in engines)
        if not left:
            break
        await asyncio.sleep(0.01)
    else:
        found.broken.append(f"{left} requests are left in gateway or engines")
    for pool in pools:
        pool.dispatcher.check()
        if pool.dispatcher.rows.by_request:
            found.broken.append(f"the dispatcher of {pool.name} still knows {len(pool.dispatcher.rows.by_request)}")


async def soak(faults: int, seed: int, policy: str = "best") -> Found:
    """Send requests until engines have met so many faults."""
    schedule = Schedule(seed)
    found, begun, numbers = schedule.found, time.monotonic(), iter(range(1, 1 << 30))
    async with serving(schedule, policy) as server:
        workers = [worker for worker in server.gateway.workers() if worker.name in schedule.ignoring]

        async def user() -> None:
            while found.faults.total() < faults:
                number = next(numbers)
                await one(schedule, server.port, number)
                if number % ANEW == 0:
                    for worker in workers:
                        server.gateway.pools.add(worker)

        await asyncio.gather(*(user() for _ in range(AT_ONCE)))
    for number, legs in schedule.asked.items():
        asked = legs - schedule.fruitful[number]
        found.most_asked = max(found.most_asked, asked)
        if asked > found.bound:
            found.broken.append(f"request {number} was asked {asked} times; retries allow {found.bound}")
    found.seconds = time.monotonic() - begun
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--faults", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--policy", default="best")
    options = parser.parse_args()
    warm(options.policy)
    print(f"command: python {' '.join(sys.argv)}; {len(FAULTS) + 1} kinds of faults")
    columns = ("complete", "error", "refused", "left", "silent", "aborted", "wrong", "hung")
    print(f"{'seed':>4}{'requests':>10}{'faults':>8}{''.join(f'{c:>10}' for c in columns)}{'most asked':>12}{'s':>6}")
    broken, total, resent = list[str](), Counter[str](), 0
    for seed in range(options.seeds):
        found = asyncio.run(soak(options.faults, seed, options.policy))
        counts = "".join(f"{found.ended[c]:>10}" for c in columns)
        asked = f"{found.most_asked} of {found.bound}"
        print(
            f"{seed:>4}{found.ended.total():>10}{found.faults.total():>8}{counts}{asked:>12}{found.seconds:>6.0f}",
            flush=True,
        )
        broken += [f"seed {seed}: {what}" for what in found.broken]
        total += found.faults
        resent += found.resent
    print(f"{resent} legs were sent once more on a fresh connection, since the kept one broke at once")
    print("faults:", ", ".join(f"{name} {count:,}" for name, count in total.most_common()))
    print("\n".join(broken) if broken else "every promise kept")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
