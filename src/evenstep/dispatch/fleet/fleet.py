"""The workers of a fleet: they join, leave, fail and recover. Nothing here knows of requests."""

from __future__ import annotations

from evenstep.dispatch.commands import Notice, Probe
from evenstep.dispatch.events import Sampled
from evenstep.dispatch.fleet.breaker import Breaker
from evenstep.dispatch.fleet.mirror import Mirror, Worker
from evenstep.dispatch.fleet.prefill import PrefillBudget, Prefiller
from evenstep.dispatch.settings import WorkerSpec
from evenstep.dispatch.timers import Timers
from evenstep.dispatch.turn import Turn
from evenstep.errors import InputError
from evenstep.wording import counted

_NOTICE_EVERY_S = 60.0
_PROBE_AGAIN_S = 5.0


class Fleet:
    """Decode workers (`mirror`), prefillers (`prefill`), and the circuit breakers of both (`breaker`)."""

    def __init__(self, turn: Turn, timers: Timers) -> None:
        settings, self._turn, self.timers = turn.settings, turn, timers
        self.mirror, self.prefill = Mirror(settings.gateways), PrefillBudget()
        self.breaker = Breaker(settings.breaker_failures, settings.cooldown_s, settings.cooldown_cap_s)
        self._numbers: dict[str, int] = {}  # of the probes' deadlines
        self._noticed: dict[tuple[str, str], float] = {}

    @property
    def is_split(self) -> bool:
        """Whether prompts go to a prefiller first: the fleet has one that is not leaving, ejected or not."""
        found = self.prefill.prefillers
        return bool(found) and any(not one.leaves for one in found.values())

    def lost_with(self, name: str) -> list[str]:
        """Names of the engines that fail with this one: its barrier group, itself included; for a prefiller only itself."""
        place = self.mirror.place.get(name)
        return [name] if place is None else self.mirror.peers(place)

    def has_left(self, out: set[str], with_prefill: bool, is_up: bool = False) -> bool:
        """Whether the fleet can serve a request without the engines named in `out`; engines that are leaving never count.

        Args:
            with_prefill: the request needs a prefiller too, if the fleet has one that stays.
            is_up: count only engines that are not ejected; False counts all.
        """
        prefillers = list(self.prefill.prefillers.values()) if with_prefill and self.is_split else []
        left = [w for w in (*self.mirror.workers, *prefillers) if not w.leaves and (w.is_up or not is_up)]
        roles = {w.spec.role for w in left if w.spec.name not in out}
        return "decode" in roles and (not prefillers or "prefill" in roles)

    def find(self, name: str) -> Worker | Prefiller | None:
        """The worker or prefiller of this name; None if the fleet has none."""
        place = self.mirror.place.get(name)
        return self.prefill.prefillers.get(name) if place is None else self.mirror.workers[place]

    def add(self, spec: WorkerSpec, now_s: float) -> bool:
        """Add a worker, or change the description of a known one; if that was leaving, it stays now.

        Returns whether places or groups in the mirror changed; the caller then begins rounds and steps anew. Raises
        InputError if the worker is there with another role.
        """
        known = self.find(spec.name)
        if known is None:
            self._numbers[spec.name] = max(self._numbers.values(), default=-1) + 1
            self.breaker.add(spec.name)
            if spec.role == "prefill":
                self.prefill.add(spec)
                return False
            self.mirror.add(spec, now_s)
            return True
        if known.spec.role != spec.role:
            raise InputError(f"worker {spec.name}", "role", spec.role, known.spec.role, "Remove it first.")
        moved = known.spec.group != spec.group
        if known.spec.kv_tokens != spec.kv_tokens:
            known.capacity = known.stated(spec)
        known.spec, known.leaves = spec, False
        if not spec.scraped:
            known.go_unread()
        if isinstance(known, Prefiller):
            return False
        known.most_slots = max(known.most_slots, spec.slots)
        self.mirror.changed(self.mirror.place[spec.name])
        if moved:
            self.mirror.regroup()
        return moved

    def remove(self, name: str) -> None:
        """Remove a worker or prefiller that has no requests; those after it in the mirror move up by one place."""
        self.breaker.remove(name)
        self._noticed = {subject: at_s for subject, at_s in self._noticed.items() if subject[1] != name}
        self.timers.clear(("probe", self._numbers.pop(name)))
        if name in self.prefill.prefillers:
            del self.prefill.prefillers[name]
        else:
            self.mirror.remove(self.mirror.place[name])

    def leave(self, name: str) -> bool:
        """Mark a worker or prefiller as leaving: it gets no new requests, and keeps those it has. False if it is unknown."""
        found = self.find(name)
        if found is None:
            return False
        found.leaves = True
        self._changed(name)
        return True

    def sampled(self, event: Sampled, now_s: float) -> None:
        """Take the metrics of a worker or prefiller; an unknown name is ignored.

        For a worker that decodes, the operator is notified of new foreign requests, of our requests that its metrics lack,
        and of slots or KV tokens that are configured higher than its metrics state.
        """
        name = event.worker
        if name in self.prefill.prefillers:
            self.prefill.sampled(name, event.kv_used, event.kv_tokens)
            return
        place = self.mirror.place.get(name)
        if place is None:
            return
        worker = self.mirror.workers[place]
        stated = ("slots", worker.spec.slots, event.slots), ("kv_tokens", worker.spec.kv_tokens, event.kv_tokens)
        for field, ours, theirs in stated:
            if 0 < theirs < ours:
                self.notice("disagreement", name, f"{field} of {name} is {ours}; the engine says {theirs}", now_s)
        appeared, is_short = self.mirror.sampled(place, event.running + event.waiting, event.kv_used, event.kv_tokens, now_s)
        if appeared:
            text = f"{name} runs {counted(worker.foreign, 'request')} not sent from here"
            self.notice("foreign", name, text, now_s)
        if is_short:
            self.notice("divergence", name, f"{name} runs fewer requests than were sent there", now_s)

    def eject(self, name: str, now_s: float) -> bool:
        """Eject a worker or prefiller: it gets nothing new until a probe succeeds. The first is due after its cooldown.

        Returns whether it was ejected now: False if it is unknown, ejected already, or the last of its role that is healthy.
        The operator is notified when it is ejected, and when the last healthy one of its role fails.
        """
        found = self.find(name)
        if found is None or self.breaker.is_ejected(name):
            return False
        alike = self.mirror.workers if name in self.mirror.place else self.prefill.prefillers.values()
        if not any(other is not found and other.is_up and not other.leaves for other in alike):
            self.notice("last-healthy", name, f"{name} fails, and is the last one that is not ejected", now_s)
            return False
        self.timers.set(("probe", self._numbers[name]), now_s + self.breaker.eject(name))
        found.is_up = False
        self._changed(name)
        self.notice("ejected", name, f"{name} gets nothing new until it answers a probe", now_s)
        return True

    def probe(self, number: int, now_s: float) -> None:
        """Append the command `Probe` for the ejected worker whose timer ``("probe", number)`` is due; again after 5 s."""
        name = next(name for name, its in self._numbers.items() if its == number)
        self.timers.set(("probe", number), now_s + _PROBE_AGAIN_S)  # in case no answer comes
        self._turn.out.append(Probe(name))

    def probed(self, name: str, ok: bool, now_s: float) -> None:
        """Handle the result of a health check: eject the worker (`eject`), or take it back. An unknown name is ignored.

        An ejected worker that is not `ok` is probed again after its doubled cooldown.
        """
        found = self.find(name)
        if found is None:
            return
        if not self.breaker.is_ejected(name):
            if not ok:
                self.eject(name, now_s)
            return
        again_s = self.breaker.probed(name, ok)
        if not ok:
            self.timers.set(("probe", self._numbers[name]), now_s + again_s)
            return
        self.timers.clear(("probe", self._numbers[name]))
        found.is_up = True
        self._changed(name)
        self.notice("recovered", name, f"{name} answers again", now_s)

    def notice(self, kind: str, about: str, text: str, now_s: float) -> None:
        """Append a `Notice` for the operator, unless the same kind and subject `about` had one in the last 60 s."""
        if now_s - self._noticed.get((kind, about), float("-inf")) >= _NOTICE_EVERY_S:
            self._noticed[kind, about] = now_s
            self._turn.out.append(Notice(kind, about, text))

    def _changed(self, name: str) -> None:
        """Recompute the worker's columns in the mirror; a prefiller has no columns."""
        if name in self.mirror.place:
            self.mirror.changed(self.mirror.place[name])
