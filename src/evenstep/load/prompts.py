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
#: Ids that nearly every vocabulary has, and that are special in none known.
FIRST_ID = 8
#: How each token is written, and what stands between two: as text, and as ids.
_FORMS = (tuple(f" {word}" for word in _WORDS), ""), (tuple(str(FIRST_ID + i) for i in range(CHOICES)), ",")
_RUN = 16  # tokens that are drawn at a time
_RUNS = 4096  # different runs
_NAME = 5  # tokens that spell a stream's number
_KEY = (1 << 60) - 1  # bits of a prompt's key that count


class Prompts:
    """Makes the bodies of requests, with synthetic prompts; the same trace, settings and row give the same bytes.

    Args:
        settings: endpoint, model, seed and requested fields.
        model: name in every body that names no other.
    """

    def __init__(self, trace: Trace, settings: LoadSettings, model: str) -> None:
        self._trace, self._settings = trace, settings
        self._has_ids = settings.prompts == "ids"
        self._token, self._between = _FORMS[self._has_ids]
        self._runs, self._told = _runs(settings.seed, self._has_ids)
        self._session, self._prompt_key = trace.column("session"), trace.column("prompt_key")
        self._tail = _tail(settings)
        self._model = orjson.dumps(model)

    def body(self, row: int, model: str = "") -> bytes:
        """The JSON body that asks for row `row` of the trace: a prompt of its prompt tokens, and at most its output tokens.

        `model` is asked for in place of the run's model; empty = the run's.
        """
        trace, model_text = self._trace, orjson.dumps(model) if model else self._model
        length, output = int(trace.prompt_tokens[row]), int(trace.output_tokens[row])
        stretches = self._stretches(row, length)
        text = self._between.join([self._written(*one) for one in stretches]).encode()
        prompt = b"[%b]" % text if self._has_ids else b'"%b"' % text
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
            session, prompt = int(self._session[row]), int(self._prompt_key[row])
            if session >= 0:
                return [("load-session", session, length)]
            return [("load-prompt", prompt & _KEY, length) if prompt else ("load-alone", row, length)]
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

    def _written(self, name: str, key: int, length: int) -> str:
        """The first tokens of one stream."""
        spelled = _spelled(key, name)[:length]
        rest = length - len(spelled)
        runs = -(-rest // _RUN)
        at = np.arange(runs, dtype=np.int64) + (key & 0xFFFFFFFFFF) * (1 << 20)
        picks = (streams.uniform(self._settings.seed, name, at) * _RUNS).astype(np.int64).tolist()
        whole, over = divmod(rest, _RUN)
        parts = [self._token[i] for i in spelled] + [self._told[pick] for pick in picks[:whole]]
        if over:
            parts += [self._token[i] for i in self._runs[picks[whole]][:over].tolist()]
        return self._between.join(parts)


@lru_cache(maxsize=2)
def _runs(seed: int, has_ids: bool) -> tuple[I8, list[str]]:
    """Runs of tokens that prompts are put together from: numbers int64[runs, length], and as they are written."""
    places = np.arange(_RUNS * _RUN, dtype=np.int64)
    drawn = (streams.uniform(seed, "load-runs", places) * CHOICES).astype(np.int64).reshape(_RUNS, _RUN)
    token, between = _FORMS[has_ids]
    return drawn, [between.join([token[i] for i in run]) for run in drawn.tolist()]


def _spelled(key: int, name: str) -> list[int]:
    """The tokens that tell one stream from another: the number of its kind mixed with its key, in base 256."""
    number = (key + streams.stream_number(name)) % CHOICES**_NAME
    return [(number >> (8 * place)) % CHOICES for place in range(_NAME)]


def _tail(settings: LoadSettings) -> bytes:
    """What every body ends with."""
    each = b',"continuous_usage_stats":true' if settings.dialect == "vllm" else b""
    tail = b',"temperature":0,"stream":true,"stream_options":{"include_usage":true%b}' % each
    if settings.dialect == "vllm":
        tail += b',"ignore_eos":true'
    if settings.token_ids:
        tail += b',"return_token_ids":true'
    return tail + b"}"
