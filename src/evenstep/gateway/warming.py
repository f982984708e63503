"""Everything that a first decision would have to compile or import, before the first request needs it."""

from __future__ import annotations

from evenstep.dispatch import events as ev
from evenstep.dispatch.commands import SendDecode
from evenstep.dispatch.dispatcher import Dispatcher
from evenstep.dispatch.settings import Settings, WorkerSpec

_WORKERS, _ROUNDS = 3, 4


def warm(policy: str, predictor: str) -> None:
    """Decide a few times about nothing, as a live dispatcher would.

    Args:
        policy, predictor: ``NAME[:key=value,...]``.

    Raises:
        InputError: an unknown policy, predictor or option.
    """
    dispatcher = Dispatcher(policy, predictor=predictor, settings=Settings(budget_ms=1e9, gather_ms=0.0))
    for place in range(_WORKERS):
        spec = WorkerSpec(name=f"w{place}", group="one", slots=4, scraped=False)
        dispatcher.handle(ev.WorkerAdded(now_s=0.0, spec=spec))
    running: list[SendDecode] = []
    for number in range(_ROUNDS * _WORKERS):
        now_s = 0.01 * (number + 1)
        commands = dispatcher.handle(ev.Arrived(now_s=now_s, request=number + 1, prompt_tokens=100 + number))
        commands += dispatcher.handle(ev.Tick(now_s=now_s))
        running += [command for command in commands if isinstance(command, SendDecode)]
        for one in running:
            dispatcher.produced(one.row, 1)
        if len(running) > _WORKERS:
            done = running.pop(0)
            dispatcher.handle(ev.Finished(now_s=now_s, request=done.request, leg=done.leg))
