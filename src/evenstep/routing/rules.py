"""A routing policy's rule: one text that is compiled where numba is, and runs as plain Python elsewhere.

The file of a policy holds its frozen dataclass and one function marked with `rule`::

    class Work(NamedTuple):             # optional: `RoutingWork`, and working space by name
        worker: Ints; memory: Ints; bound: Floats; load: Floats

    def room(workers, waiting, horizon, options):  # numbers that each array of it needs, in order;
        return (workers,)                          # (rows, columns) for a Table; a field may be a struct of arrays

    @rule
    def route(view, options, work): ...

`view` is a `RuleView`, `options` the policy's fields (`compiled.options_of`), `work` the answer and the working space.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar, get_type_hints

import numpy as np

from evenstep import compiled
from evenstep.compiled import ROUTE, ArrayOf, Floats, Ints, ReadFloats, ReadInts, ReadTable, part
from evenstep.routing.view import HOLD, RoutingDecision, RoutingView, horizon_of

F = TypeVar("F", bound=Callable[..., Any])


class RuleView(NamedTuple):
    """What a rule sees: `RoutingView`, but for `since_s`, when each request became visible, in place of `waited_s`."""

    decision: int
    seed: int
    now_s: float
    mean_wait_s: float
    group: ReadInts
    queued: ReadInts
    free_slots: ReadInts
    running: ReadInts
    load: ReadFloats
    queued_load: ReadFloats
    kv_free: ReadFloats
    seconds_per_token: ReadFloats
    waiting_id: ReadInts
    waiting_class: ReadInts
    waiting_key: ReadInts
    waiting_load: ReadFloats
    since_s: ReadFloats
    waiting_steps: ReadFloats
    projections: ReadTable
    growth: ReadFloats
    cached_tokens: ReadTable


class RoutingWork(NamedTuple):
    """What a rule writes when it needs no working space: the answer, and what it keeps.

    Args:
        worker: int64[W], all `HOLD` on entry; write only what is admitted.
        memory: int64[M], what the policy keeps.
        bound: float64[1], a certified lower bound on the objective; nan on entry.
    """

    worker: Ints
    memory: Ints
    bound: Floats


_ENTRY = """\
def route_into(
    decision, seed, now_s, mean_wait_s, first, waiting, workers_i, workers_f, waiting_i, waiting_f,
    projections, growth, cached, memory, parameters, scratch_i, scratch_f, worker,
):
    {options}
    view = RuleView(
        decision, seed, now_s, mean_wait_s,
        read_only(workers_i[0]), read_only(workers_i[1]), read_only(workers_i[2]), read_only(workers_i[3]),
        read_only(workers_f[0]), read_only(workers_f[1]), read_only(workers_f[2]), read_only(workers_f[3]),
        read_only(waiting_i[0, first : first + waiting]), read_only(waiting_i[1, first : first + waiting]),
        read_only(waiting_i[2, first : first + waiting]), read_only(waiting_f[0, first : first + waiting]),
        read_only(waiting_f[1, first : first + waiting]), read_only(waiting_f[2, first : first + waiting]),
        read_only(projections), read_only(growth), read_only(cached),
    )
    {room}
    bound = scratch_f[0:1]
    bound[0] = nan
    rule(view, options, {work})
    return bound[0]
"""


class Entry:
    """The compiled door of one policy class; a host asks it as it asks a kernel module.

    Args:
        route_into: see `routing.view`.
        scratch: words of working space, ``(workers, waiting, horizon, parameters) -> (ints, floats)``.
    """

    def __init__(self, route_into: Any, scratch: Callable[[int, int, int, Any], tuple[int, int]]) -> None:
        self.route_into, self.scratch = route_into, scratch


def rule(function: F) -> F:
    """Mark the rule of the policies of this file: the same text runs compiled and plain."""
    made = part(function)
    compiled.has_rule(function.__module__, cache(partial(_entry, made)), function.__globals__)
    return made


def _entry(made: Any, policy: type) -> Entry:
    """The door of one policy class, generated: it names the arrays of a kernel's arguments for the rule."""
    module: dict[str, Any] = getattr(made, "py_func", made).__globals__
    options, reading = compiled.options_of(policy)
    work: Any = module.get("Work", RoutingWork)
    names = module if work.__module__ == policy.__module__ else None  # two users' files may have one name
    kinds = list(_kinds(work, names))[len(RoutingWork._fields) :]
    room = module.get("room")
    scope: dict[str, Any] = {
        "rule": made,
        "Options": options,
        "RuleView": RuleView,
        "read_only": compiled.read_only,
        "nan": math.nan,
    }
    windows, lines, ends = ["worker[:waiting]", "memory", "bound"], [], {"scratch_i": "0", "scratch_f": "1"}
    if kinds:
        if room is None:
            raise TypeError(f"{policy.__module__} has a Work with arrays; expected a function room beside it")
        scope["room"] = part(room)
        lines = ["lengths = room(view.load.size, waiting, growth.size - 1, options)"]
        for k, (buffer, dimensions) in enumerate(kinds):
            length = f"lengths[{k}]" if dimensions == 1 else f"lengths[{k}][0] * lengths[{k}][1]"
            lines.append(f"end{k} = {ends[buffer]} + {length}")
            shape = f".reshape(lengths[{k}])" if dimensions == 2 else ""
            windows.append(f"{buffer}[{ends[buffer]} : end{k}]{shape}")
            ends[buffer] = f"end{k}"
    made_of = _construction(work, names, iter(windows), scope)
    source = _ENTRY.format(options="\n    ".join(reading), room="\n    ".join(lines), work=made_of)

    def scratch(workers: int, waiting: int, horizon: int, parameters: Any) -> tuple[int, int]:
        if not kinds:
            return 0, 1
        lengths = room(workers, waiting, horizon, _read(options, reading, parameters))  # type: ignore[misc]
        sizes = [int(np.prod(length)) for length in lengths]
        ints = sum(size for size, (buffer, _) in zip(sizes, kinds, strict=True) if buffer == "scratch_i")
        return ints, 1 + sum(sizes) - ints

    return Entry(compiled.generated(source, scope, made, ROUTE), scratch)


def _kinds(work: type, names: dict[str, Any] | None) -> Iterator[tuple[str, int]]:
    """The `_kind` of every array of working space, those of a struct in its place."""
    for name, hint in get_type_hints(work, names, include_extras=True).items():
        if isinstance(hint, type) and issubclass(hint, tuple):
            yield from _kinds(hint, None)
        else:
            yield _kind(work, name, hint)


def _construction(work: type, names: dict[str, Any] | None, windows: Iterator[str], scope: dict[str, Any]) -> str:
    """The text that makes working space out of the texts of its arrays; puts the structs it names into `scope`."""
    scope[work.__name__] = work
    fields = [
        _construction(hint, None, windows, scope) if isinstance(hint, type) and issubclass(hint, tuple) else next(windows)
        for hint in get_type_hints(work, names, include_extras=True).values()
    ]
    return f"{work.__name__}({', '.join(fields)})"


def _kind(work: type, name: str, hint: Any) -> tuple[str, int]:
    """The buffer that a named array of working space is a part of, and its dimensions."""
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, ArrayOf) and mark.writable:
            return "scratch_i" if mark.dtype == "int64" else "scratch_f", mark.dimensions
    raise TypeError(f"{work.__name__}.{name} is {hint}; expected Ints, Floats or Table")


def _read(options: Any, reading: list[str], parameters: Any) -> Any:
    """The options of a policy, read in plain Python by the text that compiled code reads them with."""
    names: dict[str, Any] = {"Options": options, "parameters": parameters}
    exec("\n".join(reading), names)
    return names["options"]


class Ruled:
    """A policy whose decision is the rule of its file."""

    __slots__ = ()

    def route(self, view: RoutingView) -> RoutingDecision:
        """Run the rule on a view: through the same text as the compiled loops."""
        entry = compiled.door_of(self)
        assert entry is not None
        waiting, parameters = view.waiting_id.size, compiled.parameters(self)
        ints, floats = entry.scratch(view.load.size, waiting, horizon_of(self), parameters)
        worker, memory = np.full(waiting, HOLD, np.int64), view.memory.copy()
        bound = entry.route_into(
            *arguments_of(view, horizon_of(self)),
            memory,
            parameters,
            np.zeros(ints, np.int64),
            np.zeros(floats),
            worker,
        )
        return RoutingDecision(worker, memory, float(bound))


def arguments_of(view: RoutingView, horizon: int) -> tuple[Any, ...]:
    """A view as the first arguments of ``route_into``, up to `memory`: own copies."""
    return (
        view.decision,
        view.seed,
        view.now_s,
        view.mean_wait_s,
        0,
        view.waiting_id.size,
        _stack(np.int64, view.group, view.queued, view.free_slots, view.running),
        _stack(np.float64, view.load, view.queued_load, view.kv_free, view.seconds_per_token),
        _stack(np.int64, view.waiting_id, view.waiting_class, view.waiting_key),
        _stack(np.float64, view.waiting_load, view.now_s - view.waited_s, view.waiting_steps),
        np.array(view.projections) if horizon else np.zeros((view.load.size, 0)),
        view.growth.copy(),
        view.cached_tokens.copy(),
    )


def _stack(kind: type[Any], *rows: Any) -> Any:
    return np.ascontiguousarray(np.stack([np.asarray(row, kind) for row in rows]))
