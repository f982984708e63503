"""Hashes of prompts: what the dispatcher, its log and its metrics see in place of text."""

from __future__ import annotations

import hashlib


def key_of(text: bytes, salt: bytes) -> int:
    """A number in 1..2**53-1 that stands for a text in this installation only.

    Args:
        text: what is not to be kept.
        salt: secret of the installation, at most 64 bytes; empty = the same key everywhere.
    """
    digest = hashlib.blake2b(text, digest_size=8, key=salt).digest()
    return int.from_bytes(digest, "big") >> 11 or 1


def blocks_of(text: bytes, salt: bytes, block_bytes: int) -> tuple[int, ...]:
    """Keys of a prompt's blocks in order, each of everything up to its end, so that equal keys mean equal prefixes.

    A last block that is not full has no key.
    """
    found: list[int] = []
    so_far = hashlib.blake2b(digest_size=8, key=salt)
    for end in range(block_bytes, len(text) + 1, block_bytes):
        so_far.update(text[end - block_bytes : end])
        found.append(int.from_bytes(so_far.digest(), "big") >> 11 or 1)
    return tuple(found)
