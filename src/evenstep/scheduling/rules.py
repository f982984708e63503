"""An engine policy's rule: one text that is compiled where numba is, and runs as plain Python elsewhere.

The file of a policy holds its frozen dataclass and one function marked with `rule`::

    class Work(NamedTuple):             # optional: the batch, then working space by name
        batch: Batch
        key: Floats

    def room(running, waiting, options):  # numbers that each array of working space needs, in order
        return (running,)

    @rule
    def form_batch(view, options, work): ...

`view` is a `RuleView`, `options` the policy's fields (`compiled.options_of`), `work` a `Work`, or a `Batch` without one.
`scheduling.batch` has what most rules are made of: `offer`, `admit`, `evict`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar, get_type_hints

import numpy as np

from evenstep import compiled
from evenstep.compiled import BATCH, ArrayOf, part
from evenstep.scheduling.batch import Batch, closed, opened
from evenstep.scheduling.view import EVICTED, PICKED, BatchDecision, EngineView, RuleView

F = TypeVar("F", bound=Callable[..., Any])


_ENTRY = """\
def form_batch_into(
    iteration, seed, now_s, limits, running, waiting, first, counts, rows, arrival_s, arrived, memory, parameters,
    scratch_i, scratch_f, picked, evicted,
):
    options = read(parameters)
    runs, waits = counts[0], counts[1]
    view = RuleView(
        iteration, seed, now_s,
        limits[0], limits[1], limits[2], limits[3], limits[4], limits[5], limits[6], limits[7],
        read_only(running[:runs]), read_only(waiting[first : first + waits]),
        read_only(rows[0]), read_only(rows[1]), read_only(rows[2]), read_only(rows[3]), read_only(rows[4]),
        read_only(rows[5]), read_only(rows[6]), read_only(rows[7]), read_only(rows[8]), read_only(rows[9]),
        read_only(rows[10]), read_only(rows[11]), read_only(rows[12]),
        read_only(arrival_s), read_only(arrived),
    )
    {room}
    batch = Batch(
        picked[0], picked[1], evicted, memory, counts[2:3], counts[3:4], scratch_i[0:1], scratch_i[1:2], scratch_i[2:3],
        scratch_i[3:4], scratch_f[0:1],
    )
    opened(view, batch)
    rule(view, options, {work})
    closed(batch)
    return batch.wake_s[0]
"""
#: Words of `Batch` that stand in the working space: integers, floats.
_INTS, _FLOATS = 4, 1


class Entry:
    """The compiled door of one policy class; a host asks it as it asks a kernel module.

    Args:
        form_batch_into: see `scheduling.view`.
        scratch: words of working space, ``(running, waiting, parameters) -> (ints, floats)``.
    """

    def __init__(self, form_batch_into: Any, scratch: Callable[[int, int, Any], tuple[int, int]]) -> None:
        self.form_batch_into, self.scratch = form_batch_into, scratch


def rule(function: F) -> F:
    """Mark the rule of the policies of this file: the same text runs compiled and plain."""
    made = part(function)
    compiled.has_rule(function.__module__, cache(partial(_entry, made)), function.__globals__)
    return made


def _entry(made: Any, policy: type) -> Entry:
    """The door of one policy class, generated: it names the arrays of a kernel's arguments for the rule."""
    module: dict[str, Any] = getattr(made, "py_func", made).__globals__
    read = _reader(policy)
    work: Any = module.get("Work")
    hints = list(get_type_hints(work, include_extras=True).items())[1:] if work else []
    kinds = [_kind(work, name, hint) for name, hint in hints]
    room = module.get("room")
    scope: dict[str, Any] = {
        "rule": made,
        "read": part(read),
        "Work": work,
        "RuleView": RuleView,
        "read_only": compiled.read_only,
        "Batch": Batch,
        "opened": opened,
        "closed": closed,
    }
    windows, lines, ends = "batch", [], {"scratch_i": str(_INTS), "scratch_f": str(_FLOATS)}
    if hints:
        if room is None:
            raise TypeError(f"{policy.__module__} has a Work with arrays; expected a function room beside it")
        scope["room"] = part(room)
        lines = ["lengths = room(runs, waits, options)"]
        for k, buffer in enumerate(kinds):
            lines.append(f"end{k} = {ends[buffer]} + lengths[{k}]")
            windows += f", {buffer}[{ends[buffer]} : end{k}]"
            ends[buffer] = f"end{k}"
    filled = f"Work({windows})" if work else windows
    source = _ENTRY.format(room="\n    ".join(lines), work=filled)

    def scratch(running: int, waiting: int, parameters: Any) -> tuple[int, int]:
        if not hints:
            return _INTS, _FLOATS
        lengths = room(running, waiting, read(parameters))  # type: ignore[misc]
        ints = sum(int(n) for n, kind in zip(lengths, kinds, strict=True) if kind == "scratch_i")
        return _INTS + ints, _FLOATS + sum(int(n) for n in lengths) - ints

    return Entry(compiled.generated(source, scope, made, BATCH), scratch)


def _kind(work: type, name: str, hint: Any) -> str:
    """The buffer that a named array of working space is a part of."""
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, ArrayOf) and mark.writable and mark.dimensions == 1:
            return "scratch_i" if mark.dtype == "int64" else "scratch_f"
    raise TypeError(f"{work.__name__}.{name} is {hint}; expected Ints or Floats")


def _reader(policy: type) -> Any:
    """The function that reads the options of a policy, by name, out of its parameters."""
    options, lines = compiled.options_of(policy)
    scope: dict[str, Any] = {"Options": options}
    exec("def read(parameters):\n    " + "\n    ".join([*lines, "return options"]), scope)
    return scope["read"]


class Ruled:
    """A policy whose batch is formed by the rule of its file."""

    __slots__ = ()

    def form_batch(self, view: EngineView) -> BatchDecision:
        """Run the rule on a view: through the same text as the compiled loops."""
        entry = compiled.door_of(self)
        assert entry is not None
        count, running = view.left.size, int(view.running.sum())
        parameters, counts = compiled.parameters(self), np.array([running, count - running, 0, 0])
        ints, floats = entry.scratch(running, count - running, parameters)
        memory, picked, evicted = (
            view.memory.copy(),
            np.zeros((2, count), np.int64),
            np.zeros(running, np.int64),
        )
        wake_s = entry.form_batch_into(
            *arguments_of(view, counts),
            memory,
            parameters,
            np.zeros(ints, np.int64),
            np.zeros(floats),
            picked,
            evicted,
        )
        tokens, evict = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        chosen = int(counts[PICKED])
        tokens[picked[0, :chosen]] = picked[1, :chosen]
        evict[evicted[: int(counts[EVICTED])]] = True
        return BatchDecision(tokens, evict, memory, float(wake_s))


def arguments_of(view: EngineView, counts: Any) -> tuple[Any, ...]:
    """A view as the first arguments of ``form_batch_into``, up to `memory`: own copies."""
    count, running = view.left.size, int(view.running.sum())
    limits = np.array(
        [
            view.token_budget,
            view.batch_limit,
            view.kv_capacity,
            view.kv_free,
            view.block_tokens,
            view.hold_produced,
            view.first_decoded,
            view.resident_limit,
        ]
    )
    return (
        view.iteration,
        view.seed,
        view.now_s,
        limits,
        np.arange(running),
        np.arange(running, count),
        0,
        counts,
        _rows(view),
        np.array(view.arrival_s),
        np.array(view.arrived),
    )


def _rows(view: EngineView) -> Any:
    """int64[13, N], `ID` .. `LOST_AT`, in Fortran order, which takes two columns at least to tell."""
    columns = (
        view.request_id,
        view.request_class,
        view.prompt_tokens,
        view.prefilled,
        view.produced,
        view.reached,
        view.left,
        view.resident,
        view.output_low,
        view.output_high,
        view.evictions,
        view.decoding,
        view.lost_at,
    )
    rows = np.zeros((len(columns), max(view.left.size, 2)), np.int64, order="F")
    rows[:, : view.left.size] = columns
    return rows
