"""Which call of which task waits first."""

from __future__ import annotations

import pytest

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import SendDecode
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.settings import Settings, WorkerSpec
from evenstep.errors import InputError


def sent(order: str, *calls: tuple[int, int, float]) -> list[int]:
    """The order in which one slot serves calls (task, prompt, priority); each is over before the next is sent.

    Call 1 is in the slot while the others arrive.
    """
    dispatcher = Dispatcher("jsq", settings=Settings(gather_ms=0.0, order=order))  # type: ignore[arg-type]
    dispatcher.handle(ev.WorkerAdded(now_s=0.0, spec=WorkerSpec(name="one", slots=1, scraped=False)))
    found: list[int] = []
    commands = []
    for number, (task, prompt, priority) in enumerate(calls, start=1):
        arrived = ev.Arrived(now_s=float(number), request=number, prompt_tokens=prompt, task=task, priority=priority)
        commands += dispatcher.handle(arrived)
        commands += dispatcher.handle(ev.Tick(now_s=float(number)))
    at_s = float(len(calls))
    while commands:
        legs = [one for one in commands if isinstance(one, SendDecode)]
        commands = []
        for leg in legs:
            at_s += 1.0
            found.append(leg.request)
            commands += dispatcher.handle(ev.Finished(now_s=at_s, request=leg.request, leg=leg.leg, output_tokens=5))
            commands += dispatcher.handle(ev.Tick(now_s=at_s))
    dispatcher.check()
    assert not dispatcher.pool.tasks.keys
    return found


CALLS = (1, 100, 0.0), (2, 10, 3.0), (1, 10, 2.0), (3, 10, 1.0), (0, 10, 2.0)


def test_the_order_is_of_arrival_whatever_clients_say_unless_asked_for():
    assert sent("fcfs", *CALLS) == [1, 2, 3, 4, 5]


def test_the_smallest_priority_waits_first_and_ties_go_by_arrival():
    assert sent("priority", *CALLS) == [1, 4, 3, 5, 2]


def test_the_oldest_task_waits_first():
    assert sent("oldest-task", (1, 10, 0.0), (2, 10, 0.0), (3, 10, 0.0), (1, 10, 0.0), (2, 10, 0.0)) == [1, 4, 2, 5, 3]


def test_the_task_with_the_least_service_waits_first():
    """Task 1 has had 105 tokens when its second call comes, task 2 has had 15."""
    dispatcher = Dispatcher("jsq", settings=Settings(gather_ms=0.0, order="least-attained"))
    tasks = dispatcher.pool.tasks
    for row, task, tokens in ((0, 1, 105), (1, 2, 15)):
        tasks.arrives(row, ev.Arrived(now_s=0.0, request=row, prompt_tokens=1, task=task), "least-attained")
        tasks.ends(row, tokens)
    for row, task in ((2, 1), (3, 2), (4, 3)):
        tasks.arrives(row, ev.Arrived(now_s=1.0, request=row, prompt_tokens=1, task=task), "least-attained")
    assert tasks.keys == {2: (0.0, 105.0), 3: (0.0, 15.0), 4: (0.0, 0.0)}


def test_an_unknown_order_is_refused():
    with pytest.raises(InputError, match="dispatch: order is 'lifo'; expected one of fcfs, priority"):
        Settings(order="lifo")  # type: ignore[arg-type]
