"""Prompts of many lengths, each another one, of characters that are one byte and of such that are more."""

from __future__ import annotations

from evenstep import streams

_WORDS = [
    "the",
    "barrier",
    "waits",
    "for",
    "its",
    "slowest",
    "rank,",
    "héllo",
    "wörld,",
    "均衡,",
    "and",
    "every",
    "token",
    "counts",
]


def prompt(number: int, size: int) -> str:
    """Text of about so many bytes, and as many tokens; the same for the same number and size."""
    text = f"{number}:"
    place = 0
    while len(text.encode()) < size:
        text += " " + _WORDS[int(streams.uniform(1, "prompt", number, place) * len(_WORDS))]
        place += 1
    return text.encode()[:size].decode(errors="ignore")


SOME = [prompt(number, 5 + 17 * number) for number in range(20)]
