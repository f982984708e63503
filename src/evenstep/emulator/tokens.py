"""The emulated model: its vocabulary of pseudo words, its tokenizer, and its choice of the next token.

The next token is a pure function of seeds, sample and all tokens before it, as in greedy decoding: a prompt continued with
earlier output yields the same further tokens. Every word has four characters, as " bab", so text of produced tokens
tokenises back to them. Other text is cut into pieces of up to four characters, about as many as real tokenizers make. The id
of a piece is a checksum, from which its text cannot be recovered.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from evenstep.errors import InputError
from evenstep.request import I8

END = 2
FIRST_WORD = 3
_CONSONANTS, _VOWELS = "bdfghjklmnprstvwxyzc", "aeiou"
_WORDS = [f" {a}{b}{c}" for a in _CONSONANTS for b in _VOWELS for c in _CONSONANTS]
WORDS = len(_WORDS)
_FIRST_PIECE = FIRST_WORD + WORDS
VOCABULARY = 32_000
#: Text of each id below those of pieces: empty for the three special ids, then the words.
TEXT: tuple[str, ...] = ("", "", "", *_WORDS)
_ID = {word: FIRST_WORD + index for index, word in enumerate(_WORDS)}
_PIECE = re.compile(r" ?\S{1,4}|\s")
_BASE = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def tokenise(text: str) -> list[int]:
    """Token ids of a text. Appending words of the vocabulary appends ids, and leaves the earlier ids as they are."""
    pieces = _PIECE.findall(text)
    known = _ID.get
    others = VOCABULARY - _FIRST_PIECE
    return [known(p) or _FIRST_PIECE + zlib.crc32(p.encode("utf-8", "surrogatepass")) % others for p in pieces]


def text_of(ids: Iterable[int]) -> str:
    """Text of token ids: words as they are, special ids such as `END` as no text, other ids as a space and ``<id>``."""
    return "".join(TEXT[i] if i < _FIRST_PIECE else f" <{i}>" for i in ids)


def ids_of(values: Sequence[int], where: str) -> I8:
    """Token ids as int64[N]. An id outside the vocabulary raises `InputError`, in which `where` names the ids' place."""
    if len(values) and not 0 <= min(values) <= max(values) < VOCABULARY:
        bad = next(i for i in values if not 0 <= i < VOCABULARY)
        raise InputError(where, "token id", bad, f"an id in 0..{VOCABULARY - 1}")
    return np.asarray(values, np.int64)


def state_of(ids: I8, start: int = 0) -> int:
    """The model's state, a 64-bit hash of all tokens so far, after `ids`; `start` is the state before them, 0 at first."""
    powers = _powers(1 << max(10, int(ids.size).bit_length()))[: ids.size]
    tail = int(np.dot(powers[::-1], ids.astype(np.uint64) + np.uint64(1)))
    first = int(powers[-1]) * _BASE if ids.size else 1
    return (start * first + tail) & _MASK


def after(state: int, token: int) -> int:
    """The model's state (64 bits) after one more token, from the state before it."""
    return (state * _BASE + token + 1) & _MASK


def drawn(state: int, salt: int = 0) -> int:
    """Pseudo-random integer in 0..2**64 - 1, a function of state and salt (splitmix64's finaliser)."""
    x = (state ^ salt) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def word(bits: int) -> int:
    """Token id of the word that the integer `bits`, as returned by `drawn`, selects."""
    return FIRST_WORD + bits % WORDS


def blocks_of(ids: I8, block_size: int, start: int) -> list[int]:
    """The model's state at the end of each full block of a prompt; prompts with equal states there share the block.

    `start` is the state before the prompt.
    """
    states: list[int] = []
    state = start
    for low in range(0, ids.size - block_size + 1, block_size):
        state = state_of(ids[low : low + block_size], state)
        states.append(state)
    return states


@cache
def _powers(count: int) -> NDArray[np.uint64]:
    """uint64[count], powers of `_BASE` from 0 on, modulo 2**64."""
    powers = np.full(count, _BASE, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)
