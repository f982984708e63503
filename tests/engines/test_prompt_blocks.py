"""Prompts as block ids: alike at the front, alike in the ids."""

from __future__ import annotations

import json

from evenstep.engines.requests.parsing import read_request
from evenstep.engines.requests.prompt_blocks import COARSE, FINE, name_key, prompt_blocks, prompt_key, span

KEY = b"install"


def chat(*contents: str, **more):
    messages = [{"role": "user", "content": content} for content in contents]
    return read_request("chat", json.dumps({"model": "m", "messages": messages} | more).encode())


def blocks(request, key=KEY):
    return prompt_blocks(request, key, block_bytes=64)


def test_a_longer_chat_begins_with_the_blocks_of_the_shorter():
    short, long = blocks(chat("a" * 200)), blocks(chat("a" * 200, "b" * 100))
    assert len(short) == 3 and long[:3] == short and len(long) > 4


def test_a_change_in_a_block_changes_it_and_all_after_it():
    one, other = blocks(chat("a" * 100 + "x" + "a" * 200)), blocks(chat("a" * 100 + "y" + "a" * 200))
    same = [a == b for a, b in zip(one, other, strict=True)]
    assert same == [True] * sum(same) + [False] * (len(same) - sum(same)) and 0 < sum(same) < len(same)


def test_model_tools_and_key_are_part_of_every_id():
    base = blocks(chat("a" * 200))
    others = [
        blocks(chat("a" * 200, model="n")),
        blocks(chat("a" * 200, tools=[1])),
        blocks(chat("a" * 200), b"else"),
    ]
    assert all(not set(base) & set(other) for other in others)


def test_ids_fit_the_index_and_their_number_is_bounded():
    found = prompt_blocks(chat("a" * 10_000), KEY, block_bytes=64)
    assert len(set(found)) == len(found) and all(0 <= block < 2**63 for block in found)
    assert blocks(chat("")) == []
    long = chat("a" * 1_000_000)
    assert span(len(prompt_blocks(long, KEY))) == 2048  # of 256 bytes: the first 512 KiB
    assert span(len(prompt_blocks(long, KEY, block_bytes=1024))) == 512


def test_blocks_beyond_the_front_are_longer_and_their_span_counts_the_text():
    assert [span(n) for n in (0, 1, FINE, FINE + 1, FINE + 3)] == [0, 1, FINE, FINE + COARSE, FINE + 3 * COARSE]
    for text in range(64 * FINE - 40, 64 * (FINE + 2 * COARSE), 37):
        request = chat("a" * text)
        covered = 64 * span(len(blocks(request)))
        assert covered < request.prompt_bytes <= covered + 64 * (COARSE if covered >= 64 * FINE else 1)


def test_prompts_that_part_far_behind_the_front_share_all_blocks_before():
    one, other = (blocks(chat("a" * 9_000 + letter + "c" * 9_000)) for letter in "xy")
    same = sum(a == b for a, b in zip(one, other, strict=True))
    assert one[:same] == other[:same] and 9_000 - 64 * COARSE < 64 * span(same) <= 9_100


def test_keys_say_who_is_alike_and_nothing_else():
    assert prompt_key(chat("a"), KEY) == prompt_key(chat("a"), KEY) > 0
    assert len({prompt_key(chat("a"), KEY), prompt_key(chat("b"), KEY), prompt_key(chat("a"), b"else")}) == 3
    assert name_key("", KEY) == 0
    assert name_key("ann", KEY) not in (0, name_key("bob", KEY), name_key("ann", b"else"))


def test_prompts_as_embeddings_have_no_key():
    """All had the same one, so a policy that goes by prompts sent them all to one worker."""
    assert prompt_key(read_request("completions", b'{"model":"m","prompt_embeds":"AAAA"}'), KEY) == 0


def test_a_long_prompts_key_goes_by_its_length_and_its_ends():
    base = "a" * 100_000
    keys = [prompt_key(chat(text), KEY) for text in (base, base, "b" + base[1:], base[:-1] + "b", base + "a")]
    assert keys[0] == keys[1] and len(set(keys)) == 4
