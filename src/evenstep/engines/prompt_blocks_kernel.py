# pyright: basic
"""The compiled twin of `prompt_blocks.key_of`: BLAKE2b of a prompt and its model (RFC 7693), keyed."""

from __future__ import annotations

import numpy as np

from evenstep.compiled import check, inlined, jit, seen_as

LONG_END = 512  #: bytes at each end of a long prompt that its key is made of
#: Bytes of the space that a message is put together in, and of the longest name of a model it has room for.
SPACE, MOST_MODEL = 2304, 1024
_BLOCK = 128
_IV = np.array(
    [0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
     0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179], np.uint64,
)  # fmt: skip
_SIGMA = np.array(
    [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
     [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4], [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
     [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13], [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
     [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11], [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
     [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5], [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0]],
    np.uint64,
)  # fmt: skip


def initial():
    """The state of a hash of nothing."""
    return _IV.copy()


@jit
def _turned(word, bits):
    """A word rotated to the right."""
    return (word >> np.uint64(bits)) | (word << np.uint64(64 - bits))


@jit
def _mixed(a, b, c, d, x, y):
    """The mixing function of the RFC, 3.1."""
    a = a + b + x
    d = _turned(d ^ a, 32)
    c = c + d
    b = _turned(b ^ c, 24)
    a = a + b + y
    d = _turned(d ^ a, 16)
    c = c + d
    b = _turned(b ^ c, 63)
    return a, b, c, d


@jit
def compress(state, words, at, count, is_last):
    """One block into a state; the RFC's 3.2.

    Args:
        state: uint64[8], changed. words: uint64[...], the block's begin at `at`.
        count: bytes so far, with these.
    """
    v0, v1, v2, v3, v4, v5, v6, v7 = (
        state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7],
    )  # fmt: skip
    v8, v9, v10, v11, v12, v13, v14, v15 = _IV[0], _IV[1], _IV[2], _IV[3], _IV[4], _IV[5], _IV[6], _IV[7]
    v12 ^= np.uint64(count)
    if is_last:
        v14 = ~v14
    at = np.uint64(at)  # unsigned: nothing to be looked at before it is used
    for turn in range(12):
        s = np.uint64(turn % 10)
        v0, v4, v8, v12 = _mixed(v0, v4, v8, v12, words[at + _SIGMA[s, 0]], words[at + _SIGMA[s, 1]])
        v1, v5, v9, v13 = _mixed(v1, v5, v9, v13, words[at + _SIGMA[s, 2]], words[at + _SIGMA[s, 3]])
        v2, v6, v10, v14 = _mixed(v2, v6, v10, v14, words[at + _SIGMA[s, 4]], words[at + _SIGMA[s, 5]])
        v3, v7, v11, v15 = _mixed(v3, v7, v11, v15, words[at + _SIGMA[s, 6]], words[at + _SIGMA[s, 7]])
        v0, v5, v10, v15 = _mixed(v0, v5, v10, v15, words[at + _SIGMA[s, 8]], words[at + _SIGMA[s, 9]])
        v1, v6, v11, v12 = _mixed(v1, v6, v11, v12, words[at + _SIGMA[s, 10]], words[at + _SIGMA[s, 11]])
        v2, v7, v8, v13 = _mixed(v2, v7, v8, v13, words[at + _SIGMA[s, 12]], words[at + _SIGMA[s, 13]])
        v3, v4, v9, v14 = _mixed(v3, v4, v9, v14, words[at + _SIGMA[s, 14]], words[at + _SIGMA[s, 15]])
    state[0] ^= v0 ^ v8
    state[1] ^= v1 ^ v9
    state[2] ^= v2 ^ v10
    state[3] ^= v3 ^ v11
    state[4] ^= v4 ^ v12
    state[5] ^= v5 ^ v13
    state[6] ^= v6 ^ v14
    state[7] ^= v7 ^ v15


@inlined
def _copied(data, at, size, out, to):
    """Where the copy of some bytes ends."""
    begin, other = np.uint64(at), np.uint64(to)
    for i in range(np.uint64(size)):
        out[other + i] = data[begin + i]
    return to + size


@jit
def key_of(data, begin, end, model, size, keyed, space):
    """One id of a prompt for a model; never 0.

    Args:
        data: uint8[...], with the prompt from `begin` to `end`. model: uint8[>= size], its name as it stands in a body.
        keyed: uint64[8], the state behind the key; see `prompt_blocks.keyed_state`.
        space: uint64[8 + SPACE / 8], working space.
    """
    out = seen_as(space, 64, SPACE, np.uint8)
    check(size <= MOST_MODEL and 0 <= begin <= end <= data.size)
    length = end - begin
    if length > 2 * LONG_END:
        stop = _copied(data, begin, LONG_END, out, 0)
        stop = _copied(data, end - LONG_END, LONG_END, out, stop)
        digits, rest = 1, length
        while rest >= 10:
            digits, rest = digits + 1, rest // 10
        for i in range(digits):
            out[stop + digits - 1 - i] = 48 + length % 10
            length //= 10
        out[stop + digits] = 58
        stop += digits + 1
    else:
        stop = _copied(data, begin, length, out, 0)
    stop = _copied(model, 0, size, out, stop)
    blocks = (stop + _BLOCK - 1) // _BLOCK
    for i in range(stop, blocks * _BLOCK):
        out[i] = 0
    for i in range(8):
        space[i] = keyed[i]
    for block in range(blocks):
        count = _BLOCK + min(stop, (block + 1) * _BLOCK)
        compress(space, space, 8 + 16 * block, count, block == blocks - 1)
    found = np.int64(space[0] >> np.uint64(1))
    return found if found != 0 else 1
