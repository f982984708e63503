"""A stable sort for rules, which may not allocate."""

from __future__ import annotations

from evenstep.compiled import part
from evenstep.request import F8, I8


@part
def sort_by(key: F8, count: int, order: I8, spare: I8) -> None:
    """Sort the first `count` entries of `order` by their key, smallest first; equal keys keep their order.

    Args:
        key: float64[n]; the entry v of `order` has the key ``key[v]``.
        order: int64[>= count], indices into `key`, sorted in place.
        spare: int64[>= count], working space, overwritten.
    """
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            merge(key, low, min(low + width, count), min(low + 2 * width, count), order, spare)
        for k in range(count):
            order[k] = spare[k]
        width *= 2


@part
def merge(key: F8, low: int, middle: int, high: int, order: I8, spare: I8) -> None:
    """Merge two stretches of `order`, low..middle-1 and middle..high-1, each sorted by ``key[order]``, into `spare`.

    The result stands at low..high-1 of `spare`; `order` stays. Of equal keys those of the first stretch come first.
    """
    left, right = low, middle
    for k in range(low, high):
        if left < middle and (right >= high or key[order[left]] <= key[order[right]]):
            spare[k] = order[left]
            left += 1
        else:
            spare[k] = order[right]
            right += 1
