"""What one chunk of a stream costs on its way through: read, counted, cleaned of what the client did not ask for.

It cannot show sockets, TLS or a client: bytes come from a list and go nowhere. Chunks are vLLM's in form, one token
each, with a usage object; the contenders' work is not the same, so read the list. `json` and `orjson` only
decode; `plain` is a router of few lines that decodes, counts, takes the usage out and encodes again; `read`
is our decoder alone; `count` passes the stream on as it is; `clean` takes the usage out; `ids` takes usage and token ids
out and keeps what a continuation needs; `burst` is `clean` with eight events in each write.

    python benchmarks/bench_chunks.py [--rounds 9] [--chunks 20000]
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable

import msgspec
import orjson

from evenstep.engines.streams.chunks import read_chunk
from evenstep.engines.streams.reply import ReplyStream
from evenstep.engines.view import Dialect, UsageOptions

USAGE, EVERYTHING = UsageOptions(usage=True, continuous=True), UsageOptions(usage=True, continuous=True, token_ids=True)


def event(number: int, ids: bool) -> bytes:
    """One chunk of a completion, as vLLM writes it."""
    choice = {
        "index": 0,
        "text": " balance",
        "logprobs": None,
        "finish_reason": None,
        "stop_reason": None,
        "prompt_token_ids": None,
        "token_ids": [1000 + number % 9] if ids else None,
    }
    usage = {"prompt_tokens": 512, "total_tokens": 512 + number, "completion_tokens": number}
    chunk = {
        "id": "cmpl-0c62c9b1a8f94c7fb7d3b0e1",
        "object": "text_completion",
        "created": 1763766000,
        "model": "some-organisation/some-model-8B",
        "choices": [choice],
        "usage": usage,
    }
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def decoded(events: list[bytes], decode: Callable[[bytes], object]) -> None:
    """Every event's data, decoded and thrown away."""
    for data in events:
        decode(data[6:-2])


def plain(events: list[bytes]) -> None:
    """The router of few lines."""
    produced = 0
    for data in events:
        chunk = json.loads(data[6:-2])
        produced = chunk.pop("usage")["completion_tokens"]
        _ = b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"
    check(produced, len(events))


def ours(events: list[bytes], client: UsageOptions, engine: UsageOptions, keep: bool, tokens: int) -> None:
    """A stream through `ReplyStream`."""
    reply = ReplyStream(Dialect(), chat=False, client=client, engine=engine, keep=keep)
    feed = reply.feed
    for data in events:
        feed(data)
    check(reply.produced, tokens)


def check(found: int, expected: int) -> None:
    """A contender that miscounts has not done the work."""
    if found != expected:
        raise SystemExit(f"counted {found} tokens of {expected}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--chunks", type=int, default=20_000)
    args = parser.parse_args()
    count = args.chunks // 8 * 8
    events = [event(i + 1, ids=False) for i in range(count)]
    with_ids = [event(i + 1, ids=True) for i in range(count)]
    bursts = [b"".join(events[i : i + 8]) for i in range(0, count, 8)]
    nothing = UsageOptions()
    contenders: dict[str, Callable[[], None]] = {
        "json": lambda: decoded(events, json.loads),
        "orjson": lambda: decoded(events, orjson.loads),
        "plain": lambda: plain(events),
        "read": lambda: decoded(events, read_chunk),
        "count": lambda: ours(events, USAGE, USAGE, False, count),
        "clean": lambda: ours(events, nothing, USAGE, False, count),
        "ids": lambda: ours(with_ids, nothing, EVERYTHING, True, count),
        "burst": lambda: ours(bursts, nothing, USAGE, False, count),
    }
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(args.rounds):
        for name, run in contenders.items():
            start = time.process_time()
            run()
            taken[name].append((time.process_time() - start) / count * 1e9)
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, ", end="")
    print(f"msgspec {msgspec.__version__}, orjson {orjson.__version__}; {len(events[0])} bytes a chunk")
    print(f"command: python {' '.join(sys.argv)}")
    print(f"{'':8}{'ns/chunk':>10}{'to json':>10}{'least':>8}{'most':>8}   (CPU; medians of {args.rounds} rounds)")
    for name, values in taken.items():
        ratios = sorted(a / b for a, b in zip(values, taken["json"], strict=True))
        row = f"{name:8}{statistics.median(values):10.0f}{statistics.median(ratios):10.2f}"
        print(f"{row}{ratios[0]:8.2f}{ratios[-1]:8.2f}")


if __name__ == "__main__":
    main()
