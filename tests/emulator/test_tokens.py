from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenstep.emulator import tokens
from evenstep.errors import InputError

WORDS = st.lists(st.integers(tokens.FIRST_WORD, tokens.FIRST_WORD + tokens.WORDS - 1))


@pytest.mark.slow
@given(st.text(max_size=60), WORDS)
def test_words_appended_to_any_text_append_their_ids_and_change_none_before(text, ids):
    assert tokens.tokenise(text + tokens.text_of(ids)) == tokens.tokenise(text) + ids


@given(st.text(max_size=80))
def test_every_text_has_ids_of_the_vocabulary_and_about_one_for_four_characters(text):
    ids = tokens.tokenise(text)
    assert all(tokens.FIRST_WORD <= i < tokens.VOCABULARY for i in ids)
    assert len(text) / 5 <= len(ids) <= len(text)


@given(st.lists(st.integers(0, tokens.VOCABULARY - 1)), st.integers(0, 2**64 - 1), st.data())
def test_the_state_after_a_prompt_is_the_state_after_its_tokens_one_by_one(ids, start, data):
    cut = data.draw(st.integers(0, len(ids)))
    state = tokens.state_of(np.array(ids[:cut], np.int64), start)
    for token in ids[cut:]:
        state = tokens.after(state, token)
    assert state == tokens.state_of(np.array(ids, np.int64), start)


def test_greedy_answers_are_not_constant_and_depend_on_the_prompt():
    def answer(prompt):
        state, found = tokens.state_of(np.array(tokens.tokenise(prompt))), []
        for _ in range(64):
            found.append(tokens.word(tokens.drawn(state)))
            state = tokens.after(state, found[-1])
        return found

    assert len(set(answer("one prompt"))) > 50
    assert answer("one prompt") == answer("one prompt") != answer("another")


def test_a_salt_makes_another_choice():
    assert tokens.drawn(7) == tokens.drawn(7, 0) != tokens.drawn(7, 1)


def test_two_prompts_share_the_blocks_of_their_common_beginning():
    one, other = np.arange(10, 42), np.arange(10, 42)
    other[20:] += 100
    first, second = tokens.blocks_of(one, 8, 5), tokens.blocks_of(other, 8, 5)
    assert [a == b for a, b in zip(first, second, strict=True)] == [True, True, False, False]


@pytest.mark.parametrize("bad", [-1, tokens.VOCABULARY, 1 << 70])
def test_an_id_outside_the_vocabulary_is_named(bad):
    with pytest.raises(InputError, match=f"token id is {bad}"):
        tokens.ids_of([5, bad], "prompt")


def test_draws_are_those_of_splitmix64():
    """The first outputs of the published generator from seed 0, whose state grows by the golden ratio each time."""
    golden = 0x9E3779B97F4A7C15
    draws = [tokens.drawn(golden * n % 2**64) for n in (1, 2, 3)]
    assert draws == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert tokens.drawn(golden ^ 5, salt=5) == draws[0]


def test_blocks_are_the_full_ones_and_each_has_the_state_at_its_end():
    ids = np.arange(3, 15)
    for size, count in ((3, 0), (4, 1), (7, 1), (8, 2), (11, 2), (12, 3)):
        expected = [tokens.state_of(ids[: 4 * (k + 1)], 7) for k in range(count)]
        assert tokens.blocks_of(ids[:size], 4, 7) == expected
