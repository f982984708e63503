"""The beginning of a prompt as a list of block ids, so that prompts which begin alike can be sent where they are cached.

Ids are keyed hashes: with another key they say nothing, and no text can be read out of them. Equal ids mean that
everything up to the end of the block is equal, byte for byte, model included.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evenstep.engines.prompt_blocks_kernel import LONG_END, compress, initial
from evenstep.engines.requests import GenerationRequest

#: Members beside the prompt that change what an engine computes for it, in a fixed order.
_SEED = ("model", "tools", "documents", "chat_template", "chat_template_kwargs", "cache_salt")

_PERSON = b"prompt"
BLOCK_BYTES = 256  #: of a block; a prompt of no more has none
_HASHED = 512 * 1024  #: bytes of a prompt that are hashed at most


def prompt_blocks(
    request: GenerationRequest, key: bytes, *, block_bytes: int = BLOCK_BYTES, max_blocks: int = 0
) -> list[int]:
    """Ids of the whole blocks at the front of a prompt, in order; a rest is left out.

    Args:
        request: its prompt is read as it stands in the body; a longer chat with the same beginning shares its blocks.
        key: secret of this install, 1 to 64 bytes.
        block_bytes: bytes of a block.
        max_blocks: at most so many are hashed; 0 = those of the first 512 KiB.

    Returns:
        Ids in 0..2**63-1, as `routing.prefix_index.PrefixIndex` takes them.
    """
    if len(request.prompt) <= block_bytes:  # as of most, and there is nothing to be hashed
        return []
    return blocks_of(request.prompt, seeded(request, key), block_bytes=block_bytes, max_blocks=max_blocks)


def seeded(request: GenerationRequest, key: bytes) -> hashlib.blake2b:
    """Where the ids of a request's blocks begin: what it says beside its prompt."""
    digest = hashlib.blake2b(digest_size=8, key=key)
    for name in _SEED:
        value = request.value(name)
        digest.update(b"%d:" % len(value) + value)
    return digest


def blocks_of(
    prompt: bytes | memoryview,
    digest: hashlib.blake2b,
    *,
    block_bytes: int = BLOCK_BYTES,
    max_blocks: int = 0,
) -> list[int]:
    """As `prompt_blocks`.

    Args:
        digest: of `seeded`; it is changed.
    """
    blocks = min(
        max_blocks or max(1, _HASHED // block_bytes), max(0, len(prompt) - 1) // block_bytes
    )  # a chat's closing bracket is no content
    found: list[int] = []
    for block in range(blocks):
        digest.update(prompt[block * block_bytes : (block + 1) * block_bytes])
        found.append(_id(digest.digest()))
    return found


def prompt_key(request: GenerationRequest, key: bytes) -> int:
    """One id of the whole prompt, for `request.Request.prompt_key`; never 0.

    A prompt of more than 1 KiB goes by its length and its first and last 512 bytes: all of it would take as long as
    everything else that is done for it.
    """
    return key_of(request.prompt, request.frame.model_value, key)


def key_of(prompt: bytes | memoryview, model: bytes, key: bytes) -> int:
    """`prompt_key` of a prompt for a model, as both stand in a body."""
    digest, size = _keyed(key).copy(), len(prompt)
    if size > 2 * LONG_END:
        digest.update(prompt[:LONG_END])
        digest.update(prompt[-LONG_END:])
        digest.update(b"%d:%b" % (size, model))
    else:
        digest.update(prompt)
        digest.update(model)
    return _id(digest.digest()) or 1


def keyed_state(key: bytes) -> NDArray[np.uint64]:
    """Where `prompt_blocks_kernel.key_of` begins: uint64[8], what the key alone comes to."""
    about = bytes((8, len(key), 1, 1)) + bytes(44) + _PERSON.ljust(16, b"\0")
    state = initial() ^ np.frombuffer(about, np.uint64)
    compress(state, np.frombuffer(key.ljust(128, b"\0"), np.uint64), 0, 128, False)
    return state


@lru_cache(maxsize=8)
def _keyed(key: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=8, key=key, person=_PERSON)


def name_key(name: str, key: bytes) -> int:
    """One id of a user, session or tenant; 0 for an empty name, never 0 otherwise."""
    if not name:
        return 0
    return _id(hashlib.blake2b(name.encode(), digest_size=8, key=key, person=b"name").digest()) or 1


def _id(digest: bytes) -> int:
    return int.from_bytes(digest, "little") >> 1
