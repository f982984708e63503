"""Loads of a network of engines: of each engine, and of the virtual stations that priorities make.

Two calls at different engines form a virtual station if each has priority over a call that has to come before the other.
While one runs, the other gets no work. So the two never run at the same time, and their summed load has to stay below 1 as
if they shared an engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evenstep.measure.network_records import NetworkRun


@dataclass(frozen=True, slots=True)
class Flow:
    """One call of one task type, with its share of its engine's time.

    Args:
        name: TASK.CALL.
        engine: name of the engine or group that runs it.
        load: share of the engine's or group's capacity that all runs of this call take; above 1 if that is too small for
            them, nan if not known.
        rank: its priority there, 0 first.
        before: names of the calls of the same task that must run before each run of this call, direct and indirect. In a
            loop they run again before its next run.
    """

    name: str
    engine: str
    load: float
    rank: int = 0
    before: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Station:
    """Calls that share the time of one engine, or of a virtual station over several engines, and their summed load."""

    calls: tuple[str, ...]  # names of the calls
    engines: tuple[str, ...]  # names of the engines or groups that run them, each once
    #: the summed load, nan if one is unknown. Above 1, unfinished work of these calls grows by ``load - 1`` seconds a
    #: second.
    load: float


@dataclass(frozen=True, slots=True)
class Judged:
    """The analytical verdict on a network, from its loads."""

    engines: tuple[Station, ...]  # each engine or group as a station, with its calls and load
    stations: tuple[Station, ...]  # virtual stations, the heaviest first
    verdict: str  # ``stable``, ``unstable`` or ``unknown``
    why: str  # the reason, a sentence


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """The analytical verdict with the simulated one."""

    judged: Judged  # the verdict by loads
    run: NetworkRun  # a simulated run of the network
    #: for each virtual station with a load above 1, seconds of its work added per second: as its load predicts, and as seen
    #: in the second half of the run. Keys are the names of its calls, joined by `` and ``. Empty if the run counts no time.
    growth: dict[str, tuple[float, float]]


def engine_loads(flows: Sequence[Flow]) -> list[Station]:
    """Each engine as a station with all its calls and their summed load, in order of first mention."""
    engines = dict.fromkeys(flow.engine for flow in flows)
    return [_station([flow for flow in flows if flow.engine == engine]) for engine in engines]


def virtual_stations(flows: Sequence[Flow]) -> list[Station]:
    """The virtual stations over two or more engines, heaviest first, unknown loads last; no station contains another.

    Of every two calls of a station at different engines, each has priority over a call that comes before the other.

    Source: Throughput-optimal sec. 4.3; Rybko and Stolyar (1992); Dai and Vande Vate (2000) for the name. The load condition
        is necessary where all calls are in pairs that exclude each other. With more than two engines it is not sufficient.
    """
    by_name = {flow.name: flow for flow in flows}
    exclusive = {
        (one.name, two.name)
        for one in flows
        for two in flows
        if one.engine != two.engine and _starves(one, two, by_name) and _starves(two, one, by_name)
    }
    members = [flow for flow in flows if any((flow.name, other.name) in exclusive for other in flows)]

    def together(one: Flow, two: Flow) -> bool:
        return one.engine == two.engine or (one.name, two.name) in exclusive

    found = [_station(clique) for clique in _cliques(members, together)]
    return sorted((one for one in found if len(one.engines) > 1), key=lambda one: (math.isnan(one.load), -one.load))


def _starves(one: Flow, two: Flow, by_name: dict[str, Flow]) -> bool:
    """Whether call `one` has priority over a call that has to run before `two`."""
    earlier = (by_name[name] for name in two.before if name in by_name)
    return any(call.engine == one.engine and one.rank < call.rank for call in earlier)


def _station(flows: Sequence[Flow]) -> Station:
    """These calls as one station."""
    names = tuple(flow.name for flow in flows)
    return Station(names, tuple(dict.fromkeys(flow.engine for flow in flows)), sum(flow.load for flow in flows))


def _cliques(flows: Sequence[Flow], together: Callable[[Flow, Flow], bool]) -> list[list[Flow]]:
    """All maximal sets of calls in which every two are `together` (Bron and Kerbosch)."""
    found: list[list[Flow]] = []

    def grow(clique: list[Flow], may: list[Flow], tried: list[Flow]) -> None:
        if not may and not tried:
            found.append(clique)
        for one in list(may):
            may.remove(one)
            grow([*clique, one], [c for c in may if together(one, c)], [c for c in tried if together(one, c)])
            tried.append(one)

    grow([], list(flows), [])
    return found
