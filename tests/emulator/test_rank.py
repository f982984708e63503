from __future__ import annotations

import pytest

from evenstep.emulator.memory import Memory
from evenstep.emulator.rank import Rank, Sequence


def rank(slots=4, blocks=8, block_size=4, budget=0, *, sharing=False):
    return Rank(slots, Memory(blocks, block_size, sharing=sharing), budget)


def work(key, prompt, **more):
    return Sequence(key=key, prompt=prompt, max_tokens=50, **more)


def step(one):
    """Schedule, and let every sequence whose prompt is done produce a token; the keys that did."""
    one.schedule()
    one.check()
    produced = [s.key for s in one.scheduled if s.resident == s.total]
    for s in one.scheduled:
        s.total += s.resident == s.total
    return produced


def test_the_queue_is_admitted_in_order_while_slots_last():
    one = rank(slots=2)
    one.waiting += [work(1, 3), work(2, 5), work(3, 1)]
    assert step(one) == [1, 2]
    assert (one.load, one.prefill_tokens, one.longest) == (8, 8, 5)
    assert step(one) == [1, 2]
    assert (one.load, one.prefill_tokens) == (10, 0)


def test_a_long_prompt_is_cut_where_the_budget_ends_and_decodes_come_first():
    one = rank(budget=6)
    one.waiting += [work(1, 2), work(2, 7)]
    assert step(one) == [1]
    assert (one.load, one.prefill_tokens) == (6, 6)
    assert step(one) == [1, 2]
    assert (one.load, one.prefill_tokens) == (3 + 7, 3)


def test_the_newest_gives_up_its_blocks_and_is_computed_again_with_what_it_produced():
    one = rank(blocks=4)
    one.waiting += [work(1, 7), work(2, 7)]
    assert [step(one) for _ in range(2)] == [[1, 2], [1, 2]]
    assert step(one) == [1]  # nine tokens each need three blocks
    assert [(s.key, s.total, s.resident, s.evictions) for s in one.waiting] == [(2, 9, 0, 1)]
    assert one.memory.used == 3
    one.remove(one.running[0])
    assert step(one) == [2]
    assert (one.prefill_tokens, one.counts.evictions) == (9, 1)
    assert one.counts.local_tokens == 7 + 7  # a prompt counts once


def test_the_oldest_evicts_itself_when_it_is_alone_and_others_hold_the_memory():
    one = rank(blocks=3)
    one.memory.take(1)  # leased to another engine
    one.waiting.append(work(1, 7))
    assert step(one) == [1]
    assert step(one) == [1]
    assert step(one) == []
    assert (len(one.running), one.waiting[0].key) == (0, 1)
    assert (one.scheduled, one.prefill_tokens, one.decode_tokens) == ([], 0, 0), "an empty step is none"


def test_a_prompt_waits_until_the_whole_of_it_fits():
    one = rank(blocks=4, budget=4)
    one.waiting += [work(1, 9), work(2, 8)]
    assert step(one) == []
    assert [s.key for s in one.running] == [1]


def test_what_another_engine_prefilled_is_not_computed_but_for_its_last_token():
    one = rank()
    one.waiting.append(work(1, 8, fetched=8))
    assert step(one) == [1]
    assert (one.load, one.prefill_tokens, one.counts.fetched_tokens, one.counts.local_tokens) == (8, 1, 8, 0)
    assert (one.counts.looked_up_tokens, one.counts.found_tokens) == (0, 0), "there is no cache"


def test_a_prompt_seen_before_is_found_in_the_cache():
    one = rank(sharing=True)
    first = work(1, 10, chain=[101, 102])
    one.waiting.append(first)
    step(one)
    one.waiting.append(work(2, 10, chain=[101, 102]))
    assert step(one) == [1, 2]
    assert (one.prefill_tokens, one.counts.cached_tokens, one.memory.used) == (2, 8, 4)
    assert (one.counts.looked_up_tokens, one.counts.found_tokens) == (20, 8)
    one.remove(first)
    assert one.memory._holders == {101: 1, 102: 1}


def test_a_prompt_is_found_by_the_next_sequence_of_the_same_step():
    one = rank(sharing=True)
    one.waiting += [work(1, 10, chain=[101, 102]), work(2, 10, chain=[101, 102])]
    assert step(one) == [1, 2]
    assert (one.prefill_tokens, one.counts.cached_tokens, one.memory.used) == (12, 8, 4)


def test_a_prompt_that_is_cached_whole_still_computes_its_last_block():
    one = rank(sharing=True)
    for key in (1, 2):
        one.waiting.append(work(key, 8, chain=[101, 102]))
        step(one)
    assert one.counts.cached_tokens == 4


def test_kv_that_came_from_another_engine_is_lost_by_an_eviction():
    one = rank(blocks=4)
    one.waiting += [work(1, 7), work(2, 7, fetched=7)]
    assert [step(one) for _ in range(2)] == [[1, 2], [1, 2]]
    assert one.prefill_tokens == 0 and step(one) == [1]
    one.remove(one.running[0])
    assert step(one) == [2] and one.prefill_tokens == 9
    assert (one.counts.fetched_tokens, one.counts.local_tokens) == (7, 7), "a prompt counts once"


def test_of_a_prompt_in_the_cache_only_the_rest_is_fetched():
    one = rank(sharing=True)
    one.waiting.append(work(1, 9, chain=[101, 102]))
    step(one)
    one.waiting.append(work(2, 14, chain=[101, 102, 103], fetched=14))
    step(one)
    counts = one.counts
    assert (counts.cached_tokens, counts.fetched_tokens, counts.local_tokens) == (8, 6, 9)
    assert one.prefill_tokens == 1


def test_a_prompt_that_is_cut_shares_only_the_blocks_it_has_filled():
    one = rank(budget=6, sharing=True)
    one.waiting.append(work(1, 10, chain=[101, 102]))
    found = []
    for _ in range(2):
        step(one)
        found.append(one.memory.found([101, 102]))
    assert found == [1, 2]


def test_a_step_that_evicts_admits_no_sequence_even_if_one_would_fit():
    """Of four blocks, the first has two that are shared and takes a third; the second has a copy of one of the shared."""
    one = rank(blocks=4, sharing=True)
    one.waiting += [work(1, 8, chain=[101, 102]), work(2, 8, chain=[101, 102])]
    assert step(one) == [1, 2] and one.memory.used == 3
    assert step(one) == [1]
    assert (one.waiting[0].evictions, one.memory.available) == (1, 1)
    assert step(one) == [1, 2], "both shared blocks were found, and one more was enough"
    assert (one.prefill_tokens, one.decode_tokens, one.memory.used) == (0, 2, 4)
    assert one.running[1].private == 1


def test_decodes_leave_the_rest_of_the_budget_to_prompts():
    one = rank(budget=3)
    one.waiting += [work(1, 1), work(2, 1), work(3, 6)]
    assert step(one) == [1, 2]
    found = []
    for _ in range(4):
        step(one)
        found.append((one.decode_tokens, one.prefill_tokens, one.running[2].resident))
    assert found == [(2, 1, 2), (2, 1, 3), (2, 1, 4), (2, 1, 5)]


def idle_block(one):
    one.memory.give(1)


def no_block(one):
    one.running[0].private = 0


def held_in_the_queue(one):
    one.waiting.append(work(9, 4, private=1))


def one_slot_fewer(one):
    one.slots = 0


@pytest.mark.parametrize("harm", [idle_block, no_block, held_in_the_queue, one_slot_fewer])
def test_the_check_that_storms_rely_on_sees_what_is_wrong(harm):
    one = rank()
    one.waiting.append(work(1, 4))
    step(one)
    one.check()
    harm(one)
    with pytest.raises(RuntimeError):
        one.check()
