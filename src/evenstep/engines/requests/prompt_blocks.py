"""The beginning of a prompt as a list of block ids, so that prompts which begin alike can be sent where they are cached.

Ids are keyed hashes, so no text can be read out of them. Equal ids mean that everything up to the end of the block is equal,
byte for byte, model included.

The first `FINE` blocks of a prompt have the given length, the others `COARSE` times as much. So the length that two prompts
share is known to an eighth, and a prompt above 512 KiB has 312 blocks, not 2048.
"""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache
from typing import Any

from evenstep.compiled import jit
from evenstep.engines.requests.parsing import GenerationRequest

#: Members next to the prompt that change its KV cache, in a fixed order.
_SEED = ("model", "tools", "documents", "chat_template", "chat_template_kwargs", "cache_salt")

BLOCK_BYTES = 256  #: of a block at the front; a prompt up to this size has no blocks
FINE, COARSE = 64, 8  #: blocks of that length at the front, and how many times as long the others are
_LONG_END = 512  # bytes at each end of a long prompt that form its key
_HASHED = 512 * 1024  #: most bytes of a prompt that are hashed


@jit
def span(blocks: int) -> int:
    """Length, in fine blocks, of the first `blocks` blocks of a prompt: 1 for each of the first 64, 8 for each later one."""
    return min(blocks, FINE) + COARSE * max(0, blocks - FINE)


def prompt_blocks(request: GenerationRequest, key: bytes, *, block_bytes: int = BLOCK_BYTES) -> list[int]:
    """Ids of the whole blocks at the front of a prompt, in order; a partial block at the end has no id.

    Each id is a keyed hash of all text up to the end of its block, and of the model, tools and other members that change the
    KV cache. Only the first 512 KiB of the prompt get blocks. The prompt is taken as it stands in the body, so a longer chat
    with the same beginning shares its blocks.

    Args:
        key: secret of this install, 1 to 64 bytes.
        block_bytes: bytes of each of the first 64 blocks; later blocks are eight times as long.

    Returns:
        Ids in 0..2**63-1, as `routing.prefix_index.PrefixIndex` takes them; empty for a prompt of at most `block_bytes`.
    """
    stop, fields = request.prompt_bytes, request.fields
    if stop <= block_bytes:  # the common case
        return []
    values = [(name, bytes(request.value(name))) for name in _SEED if name in fields]
    digest = _seeded(key, *values).copy()
    whole = min(max(1, _HASHED // block_bytes), (stop - 1) // block_bytes)  # a closing bracket is not content
    update, told, view, found = digest.update, digest.digest, memoryview(request.prompt), list[bytes]()
    size, coarse, fine = block_bytes, COARSE * block_bytes, min(whole, FINE)
    middle = fine * size
    for at in range(0, middle, size):
        update(view[at : at + size])
        found.append(told())
    for at in range(middle, middle + (whole - fine) // COARSE * coarse, coarse):
        update(view[at : at + coarse])
        found.append(told())
    return [word >> 1 for word in _words(len(found)).unpack(b"".join(found))]


@lru_cache(maxsize=64)
def _seeded(key: bytes, *values: tuple[str, bytes]) -> Any:
    """A SHA-256 that has read the key and the members (name, JSON); callers copy it and add the prompt."""
    digest = hashlib.sha256(b"%d:%b" % (len(key), key))
    for name, value in values:
        digest.update(b"%b=%d:%b" % (name.encode(), len(value), value))
    return digest


@lru_cache(maxsize=1024)
def _words(digests: int) -> struct.Struct:
    """A struct that unpacks the first eight bytes of each of `digests` SHA-256 digests as integers."""
    return struct.Struct("<" + "Q24x" * digests)


def prompt_key(request: GenerationRequest, key: bytes) -> int:
    """A keyed hash of the prompt (its JSON) and its model, 1 to 2**63-1, for the field `request.Request.prompt_key`.

    It is 0, unknown, for prompts as embeddings.

    A prompt of more than 1 KiB is identified by its length and its first and last 512 bytes, since a hash of all of it would
    cost as much as the rest of the request. `key` is the secret of this install, 1 to 64 bytes.
    """
    prompt, model = request.prompt, request.fields["model"]
    size = len(prompt)
    if not size:  # else all of them would be alike
        return 0
    if size > 2 * _LONG_END:
        window = memoryview(prompt)
        return _id(b"%b%b%d:%b" % (window[:_LONG_END], window[-_LONG_END:], size, model), key, b"prompt")
    return _id(b"%b%b" % (prompt, model), key, b"prompt")


def name_key(name: str, key: bytes) -> int:
    """An id, 1 to 2**63-1, for a user, session or tenant: its name hashed with the install's secret; 0 = no name."""
    return _id(name.encode(), key, b"name") if name else 0


def _id(text: bytes, key: bytes, kind: bytes) -> int:
    """A hash of `text`, 1 to 2**63-1, keyed by `key` and `kind`."""
    digest = _keyed(key, kind).copy()
    digest.update(text)
    return int.from_bytes(digest.digest(), "little") >> 1 or 1


@lru_cache(maxsize=16)
def _keyed(key: bytes, kind: bytes) -> hashlib.blake2b:
    """An empty 8-byte BLAKE2b hash with this key and purpose; callers copy it."""
    return hashlib.blake2b(digest_size=8, key=key, person=kind)
