"""What a view says of memory."""

from evenstep.scheduling.view import whole_blocks


def test_memory_comes_in_whole_blocks():
    assert [whole_blocks(n, 16) for n in (0, 1, 16, 17)] == [0, 16, 16, 32]
    assert whole_blocks(17, 1) == 17
