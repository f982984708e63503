"""Records what an engine says, for the tests of its dialect.

`python -m tests.engines.record http://127.0.0.1:8000 MODEL tests/engines/recorded/vllm-0.33.0.json --engine vllm:version=0.33.0`
sends the requests of an earlier record (`--like`), and writes for each of them what the engine says to it (``client``), and
what it says when the dialect's own questions are added (``engine``). Whole answers and refusals are kept as text. Only the
time of creation is made 1. If the dialect has a metrics page, it goes beside the file, as ``NAME-metrics.txt``.
"""

from __future__ import annotations

import argparse
import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from evenstep import names
from evenstep.engines.requests.bodies import upstream
from evenstep.engines.requests.parsing import read_request

HERE = Path(__file__).parent / "recorded"
PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
PROMPTS: dict[str, dict[str, Any]] = {
    "completions": {"prompt": "héllo"},
    "chat": {"messages": [{"role": "user", "content": "héllo"}]},
}


def ask(url: str, body: bytes | None = None) -> str:
    """What the engine answers, a refusal's body too, with the time of creation made 1."""
    headers = {"Content-Type": "application/json", "X-Request-Id": "recorded"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
            said = answer.read()
    except urllib.error.HTTPError as refusal:
        said = refusal.read()
    return re.sub(r'"created": ?\d+', '"created":1', said.decode())


def record(url: str, model: str, engine: str, like: Path, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The record: by name, ``request``, ``client`` and ``engine`` of a stream, or the text of an answer or a refusal."""
    dialect = names.build("engines", names.parse(engine)).dialect
    found: dict[str, Any] = {}
    for name, kept in json.loads(like.read_text(encoding="utf-8")).items():
        kind, _, what = name.partition(" ")
        if not isinstance(kept, dict):
            answer = {
                "model": model,
                "max_tokens": 1,
                **PROMPTS[kind],
                **({"n": 2, "temperature": 0} if what == "refused" else {}),
            }
            found[name] = ask(url + PATHS[kind], json.dumps(answer).encode())
            continue
        request = {key: value for key, value in kept["request"].items() if key not in without} | {"model": model}
        client = json.dumps(request).encode()
        asked, _ = upstream(read_request(kind, client), dialect, token_ids=True)
        found[name] = {"request": request, "client": ask(url + PATHS[kind], client), "engine": ask(url + PATHS[kind], asked)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--engine", default="vllm", help="the dialect, NAME[:key=value,...]")
    parser.add_argument("--like", type=Path, default=HERE / "vllm-0.32.0.json", help="the record whose requests are sent")
    parser.add_argument("--without", action="append", default=[], help="a member of the requests that the engine refuses")
    given = parser.parse_args()
    url = given.url.rstrip("/")
    found = record(url, given.model, given.engine, given.like, tuple(given.without))
    given.out.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    if page := names.build("engines", names.parse(given.engine)).metrics_path:
        given.out.with_name(f"{given.out.stem}-metrics.txt").write_text(ask(url + page), encoding="utf-8")


if __name__ == "__main__":
    main()
