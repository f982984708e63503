"""Builds prompts of given lengths from a seed: the same trace and seed give the same bytes on any machine.

A prompt is the start of an endless stream of tokens. Requests with the same key share a stream, and so a prefix:

* with prefix blocks, each block id has its own stretch, so that prompts share the blocks that the trace says they share;
* else requests of one session share one stream, and each turn's prompt continues the previous one;
* else requests with one ``prompt_key`` share one, and every other request has its own stream.

As text a token is a common word of at most four letters, which nearly every byte-pair vocabulary holds as one token. The
engine's count is reported next to the requested length. The first words spell the stream's number, so that no two
streams share their first block of KV by chance.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import numpy as np
import orjson

from evenstep import streams
from evenstep.load.settings import LoadSettings
from evenstep.request import I8, Trace

_WORDS = tuple(files("evenstep.load").joinpath("words.txt").read_text(encoding="utf-8").split())
#: Words, or ids, that prompts are made of.
CHOICES = len(_WORDS)
_WORD = tuple(f" {word}" for word in _WORDS)
#: Ids that nearly every vocabulary has, and that are special in none known.
FIRST_ID = 8
_RUN = 16  # tokens that are drawn at a time
_RUNS = 4096  # different runs
_NAME = 5  # tokens that spell a stream's number


class Prompts:
    """Makes the bodies of requests, with synthetic prompts; the same trace, settings and row give the same bytes.

    Args:
        settings: endpoint, model, seed and requested fields.
        model: name in every body that names no other.
    """

    def __init__(self, trace: Trace, settings: LoadSettings, model: str) -> None:
        self._trace, self._settings = trace, settings
        self._runs, self._texts, self._ids = _runs(settings.seed)
        self._keys = _keys(trace)
        self._session = trace.column("session")
        self._tail = _tail(settings)
        self._model = orjson.dumps(model)

    def body(self, row: int, model: str = "") -> bytes:
        """The JSON body that asks for row `row` of the trace: a prompt of its prompt tokens, and at most its output tokens.

        `model` is asked for in place of the run's model; empty = the run's.
        """
        trace, model_text = self._trace, orjson.dumps(model) if model else self._model
        length, output = int(trace.prompt_tokens[row]), int(trace.output_tokens[row])
        stretches = self._stretches(row, length)
        if self._settings.prompts == "ids":
            prompt = b"[" + ",".join(self._written(*one, ids=True) for one in stretches).encode() + b"]"
        else:
            prompt = b'"' + "".join(self._written(*one, ids=False) for one in stretches).encode() + b'"'
        if self._settings.chat:
            head = b'{"model":%b,"messages":[{"role":"user","content":%b}]' % (model_text, prompt)
        else:
            head = b'{"model":%b,"prompt":%b' % (model_text, prompt)
        session = int(self._session[row])
        user = b',"user":"session-%d"' % session if session >= 0 else b""
        return b'%b%b,"max_tokens":%d%b' % (head, user, output, self._tail)

    def _stretches(self, row: int, length: int) -> list[tuple[str, int, int]]:
        """The parts of a prompt: name of the draws, key, and tokens of each."""
        blocks = self._trace.prefix_blocks
        if blocks is None or blocks.offsets[row] == blocks.offsets[row + 1]:
            kind = ("alone", "session", "prompt")
            which, key = divmod(int(self._keys[row]), 1 << 60)
            return [(f"load-{kind[which]}", key, length)]
        scope = int(self._session[row]) + 1 if blocks.scope == "session" else 0
        name = f"load-block-{scope}" if scope else "load-block"
        size, found = blocks.block_tokens, list[tuple[str, int, int]]()
        for block in blocks.row(row).tolist():
            if length <= 0:
                break
            found.append((name, block, min(size, length)))
            length -= size
        if length > 0:
            found.append(("load-alone", row, length))
        return found

    def _written(self, name: str, key: int, length: int, *, ids: bool) -> str:
        """The first tokens of one stream, as text or as ids with commas between."""
        spelled = _spelled(key, name)[:length]
        rest = length - len(spelled)
        runs = -(-rest // _RUN)
        at = np.arange(runs, dtype=np.int64) + (key & 0xFFFFFFFFFF) * (1 << 20)
        picks = (streams.uniform(self._settings.seed, name, at) * _RUNS).astype(np.int64).tolist()
        whole, over = divmod(rest, _RUN)
        if ids:
            parts = [",".join(str(FIRST_ID + i) for i in spelled)]
            parts += [self._ids[pick] for pick in picks[:whole]]
            if over:
                parts.append(",".join(str(FIRST_ID + i) for i in self._runs[picks[whole]][:over].tolist()))
            return ",".join(parts)
        text = "".join(_WORD[i] for i in spelled) + "".join(self._texts[pick] for pick in picks[:whole])
        if over:
            text += "".join(_WORD[i] for i in self._runs[picks[whole]][:over].tolist())
        return text


@lru_cache(maxsize=2)
def _runs(seed: int) -> tuple[I8, list[str], list[str]]:
    """Runs of tokens that prompts are put together from: numbers int64[runs, length], as text, and as ids."""
    places = np.arange(_RUNS * _RUN, dtype=np.int64)
    drawn = (streams.uniform(seed, "load-runs", places) * CHOICES).astype(np.int64).reshape(_RUNS, _RUN)
    texts = ["".join(_WORD[i] for i in run) for run in drawn.tolist()]
    return drawn, texts, [",".join(str(FIRST_ID + i) for i in run) for run in drawn.tolist()]


def _spelled(key: int, name: str) -> list[int]:
    """The tokens that tell one stream from another: the number of its kind mixed with its key, in base 256."""
    number = (key + streams.stream_number(name)) % CHOICES**_NAME
    return [(number >> (8 * place)) % CHOICES for place in range(_NAME)]


def _keys(trace: Trace) -> I8:
    """int64[N], kind (0 alone, 1 session, 2 prompt) times 2**60 plus the number of the stream."""
    rows = np.arange(len(trace), dtype=np.int64)
    session, prompt = trace.column("session"), trace.column("prompt_key")
    folded = prompt & ((1 << 60) - 1)
    keys = np.where(prompt != 0, (2 << 60) + folded, rows)
    return np.where(session >= 0, (1 << 60) + session, keys)


def _tail(settings: LoadSettings) -> bytes:
    """What every body ends with."""
    each = b',"continuous_usage_stats":true' if settings.dialect == "vllm" else b""
    tail = b',"temperature":0,"stream":true,"stream_options":{"include_usage":true%b}' % each
    if settings.dialect == "vllm":
        tail += b',"ignore_eos":true'
    if settings.token_ids:
        tail += b',"return_token_ids":true'
    return tail + b"}"
