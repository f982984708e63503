from __future__ import annotations

from evenstep.emulator.memory import Memory


def test_blocks_are_taken_and_given_back():
    memory = Memory(4, 16)
    assert memory.blocks_for(16) == 1
    assert memory.blocks_for(17) == 2
    assert memory.take(3)
    assert not memory.take(2)
    assert (memory.used, memory.available) == (3, 1)
    memory.give(3)
    assert memory.used == 0


def test_a_published_block_is_found_until_room_is_needed_oldest_first():
    memory = Memory(3, 16, sharing=True)
    memory.take(2)
    assert memory.publish(11)
    assert memory.publish(12)
    memory.leave([11, 12])
    assert (memory.used, memory.found([11, 12]), memory.found([12])) == (0, 2, 1)
    memory.take(2)  # one was free, one idle block has to go: the end of the prompt
    assert (memory.used, memory.available, memory.found([11, 12])) == (2, 1, 1)


def test_the_idle_block_that_goes_first_is_the_one_used_longest_ago():
    memory = Memory(2, 16, sharing=True)
    memory.take(2)
    for block in (11, 12):
        memory.publish(block)
        memory.leave([block])
    memory.hold([11])
    memory.leave([11])
    assert memory.take(1) and memory.found([12]) == 0 and memory.found([11]) == 1
    assert memory.take(1) and memory.found([11]) == 0 and not memory.take(1)


def test_a_block_held_twice_stays_until_both_have_left():
    memory = Memory(3, 16, sharing=True)
    memory.take(1)
    memory.publish(11)
    memory.hold([11])
    memory.leave([11])
    assert memory._holders == {11: 1}
    assert memory.used == 1
    assert not memory.publish(11)
    memory.leave([11])
    assert memory.used == 0


def test_nothing_is_shared_where_sharing_is_off():
    memory = Memory(3, 16)
    memory.take(1)
    assert not memory.publish(11)
    assert memory.found([11]) == 0


def test_a_restart_forgets_everything():
    memory = Memory(3, 16, sharing=True)
    memory.take(3)
    memory.publish(1)
    memory.publish(2)
    memory.leave([2])
    memory.clear()
    assert (memory.used, memory.available, memory.found([1]), memory.found([2])) == (0, 3, 0, 0)
