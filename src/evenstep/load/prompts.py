"""Builds prompts of given lengths from a seed: the same trace, settings and model give the same bytes on any machine.

A prompt is the start of an endless pseudo-random stream of tokens. Requests that share a stream share a prefix:

* with prefix blocks in the trace, each block id has its own stream, so prompts share the blocks that the trace says;
* else requests of one session share one stream, so each turn's prompt continues the previous one;
* else requests with the same ``prompt_key`` share one, and every other request has its own.

In text, a token is a common word of at most four letters, which nearly every byte-pair vocabulary holds as one token. The
first tokens encode the stream's number, so that no two streams share their first KV block by chance.
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
#: Number of different words, or ids, that prompts are made of.
CHOICES = len(_WORDS)
#: Smallest id in prompts; nearly every vocabulary has the ids from here on, and no known one gives them a special meaning.
FIRST_ID = 8
#: Text of each token and the separator between two: for text prompts, and for ids.
_FORMS = (tuple(f" {word}" for word in _WORDS), ""), (tuple(str(FIRST_ID + i) for i in range(CHOICES)), ",")
_RUN = 16  # tokens of a run, the piece that one draw picks
_RUNS = 4096  # number of different runs
_NAME = 5  # tokens that encode a stream's number
_KEY = (1 << 60) - 1  # mask of the bits of a prompt's key that are used


class Prompts:
    """Builds the JSON bodies of a trace's requests, with synthetic prompts, under the load's settings.

    `model` is the model's name in each body, unless `body` is given another name.
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
        """The JSON body for a row of the trace: a prompt of as many tokens as the row's, ``max_tokens`` = its output tokens.

        A row with a session adds ``user``, ``session-N``. A `model` that is not empty replaces that of the class.
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
        """The parts of a row's prompt, in order: name and key of the stream that gives each, and its number of tokens."""
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
        """The first `length` tokens of a stream, as text or as comma-separated ids."""
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
    """The runs of tokens that prompts are built from: token numbers, int64[runs, tokens], and the text of each run."""
    places = np.arange(_RUNS * _RUN, dtype=np.int64)
    drawn = (streams.uniform(seed, "load-runs", places) * CHOICES).astype(np.int64).reshape(_RUNS, _RUN)
    token, between = _FORMS[has_ids]
    return drawn, [between.join([token[i] for i in run]) for run in drawn.tolist()]


def _spelled(key: int, name: str) -> list[int]:
    """The numbers of a stream's first tokens: a mix of its name and key, in base 256."""
    number = (key + streams.stream_number(name)) % CHOICES**_NAME
    return [(number >> (8 * place)) % CHOICES for place in range(_NAME)]


def _tail(settings: LoadSettings) -> bytes:
    """The end of every body: sampling, streaming and usage options, and the closing brace."""
    each = b',"continuous_usage_stats":true' if settings.dialect == "vllm" else b""
    tail = b',"temperature":0,"stream":true,"stream_options":{"include_usage":true%b}' % each
    if settings.dialect == "vllm":
        tail += b',"ignore_eos":true'
    if settings.token_ids:
        tail += b',"return_token_ids":true'
    return tail + b"}"
