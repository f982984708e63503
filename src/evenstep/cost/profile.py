"""Batch time composed from measured tables of a model's layers and attention."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from evenstep.cost.batch import Batch, check_numbers, layout, on_lines, rise_after
from evenstep.cost.lockstep import Parts
from evenstep.cost.profile_tables import Tables, read_tables
from evenstep.errors import InputError, check_range
from evenstep.request import F8

#: Dense layers that run once an iteration, and those that run twice in a layer of the model.
ONCE = frozenset({"embedding", "final_layernorm"})
TWICE = frozenset({"layernorm"})


@dataclass(frozen=True)
class Profile:
    """Dense layers by tokens, attention by its prefills and decodes, output head and sampler by requests.

    ``profile:path=DIR``. The folder holds tables as LLMServingSim's profiler writes them, plain or gzipped: ``dense.csv``
    (layer, tokens, time_us), ``attention.csv`` (prefill_chunk, kv_prefill, n_decode, kv_decode, time_us) and
    ``per_sequence.csv`` (layer, sequences, time_us). Several devices add ``collective.csv`` (bytes, time_us), experts
    ``moe.csv`` (tokens, activated_experts, time_us). ``profile.json`` has all other facts. Times are of one layer; each
    counts as often as the model runs it. Two collectives end a layer: the all-reduces of tensor parallelism, or the
    all-gather and reduce-scatter of experts on several devices.

    * Several prefill chunks count as one chunk of their summed tokens C, with a context that gives the same number of pairs
      of a token and one it attends to: ``(sum(c * k) + sum(c^2) / 2) / C - C / 2``, not below 0.
    * Decodes of unequal context count as attention at their mean context, plus a share of the extra time if all were as
      long as the longest. The two shares (``skew``: of batches that only decode, of mixed ones) are measured.
    * Batches of up to ``graph_tokens`` tokens run as captured graphs, padded to the next captured size if there is one.
    * Between the points of a table, times lie on straight lines. Beyond the last point the last line of attention goes on.
      Layers, head and collectives grow there as on average over the upper half of their points, but never fall. The table
      of experts is read there at its nearest point. Attention of a mixed batch grows there by as many seconds as that of its
      chunk alone, and as that of its decodes alone.

    Args:
        path: a folder, or the name of a bundled profile.
        layers: layers of the model; 0 = as in ``profile.json``.
        graph_tokens: most tokens of a batch that runs as a captured graph, 0 = no graphs (vLLM's `enforce_eager`); None = as
            in ``profile.json``.
        skew: the two shares of the longest context, ``0/0`` for none; empty = as in ``profile.json``.
        shares_path: True if both directions of the link between data-parallel ranks share one path (`cost.lockstep`); None =
            as in ``profile.json``.
        collective: file in the folder with the times of collectives, if there are several such files.

    Raises:
        InputError: a table is missing or has a bad row (line and column are named), or an option is out of range.

    Source: LLMServingSim (tables and their meaning); the combination is ours.
    """

    path: str = "rtx4090-llama31-8b"
    layers: int = 0
    graph_tokens: int | None = None
    skew: tuple[float, ...] = ()
    shares_path: bool | None = None
    collective: str = "collective.csv"

    def __post_init__(self) -> None:
        facts, where = self.tables.facts, f"profile {self.path}"
        layers, skew = self.layers or facts.layers, self.skew or facts.skew
        graphs = facts.graph_tokens if self.graph_tokens is None else self.graph_tokens
        shares_path = facts.shares_path if self.shares_path is None else self.shares_path
        check_range(where, "an integer >= 1", "Give layers=.", low=1, layers=layers)
        if len(skew) != 2:
            raise InputError(where, "skew", skew, "two shares", "Of decodes alone, and with a chunk.")
        check_range(where, "an integer >= 0", low=0, graph_tokens=graphs)
        check_numbers(where, skew_alone=skew[0], skew_mixed=skew[1])
        for name, value in (("layers", layers), ("graph_tokens", graphs), ("skew", skew), ("shares_path", shares_path)):
            object.__setattr__(self, name, value)

    @cached_property
    def tables(self) -> Tables:
        """The tables of `path`, read once."""
        return read_tables(self.path, self.collective)

    def seconds(self, batch: Batch) -> float:
        from evenstep.cost.batch_seconds import seconds_by_table

        return seconds_by_table(self.table(), batch)

    def table(self) -> F8:
        return self._numbers

    @cached_property
    def _numbers(self) -> F8:
        """The law as `batch.layout` makes it, computed once."""
        return layout(tokens=self._by_tokens(), requests=self._by_requests(), grid=self._grid())

    def in_lockstep(self, ranks: int) -> Parts:
        """Split the law for data-parallel ranks. Without shared experts, or with one rank, all of it is the rank's own part.

        Else dense layers, attention and head are each rank's own part, and experts and collectives the common part.

        Raises:
            InputError: the experts lie on another number of devices than `ranks`.
        """
        tables, facts = self.tables, self.tables.facts
        if tables.moe is None or facts.expert_ranks == 1 or ranks == 1:
            return Parts(self.table())
        if facts.expert_ranks != ranks:
            where = f"profile {self.path}"
            hint = f"Its experts lie on {facts.expert_ranks} devices."
            raise InputError(where, "data_parallel", ranks, f"{facts.expert_ranks} (or 1)", hint)
        tokens, dense = self._dense()
        links = tables.collective
        return Parts(
            layout(tokens=_ends_added(np.stack([tokens, dense])), requests=self._by_requests(), grid=self._grid()),
            experts=_ends_added(np.stack([tokens, self.layers * tables.moe.seconds(tokens, facts)])),
            links=None if links is None else _ends_added(np.stack([tokens, self._collectives(tokens, links)])),
            sizes=tuple(captured(self.graph_tokens or 0)),
            shares_path=bool(self.shares_path),
        )

    def _by_tokens(self) -> F8:
        """float64[2, P]: tokens, and seconds of everything that depends on them alone."""
        tables, facts = self.tables, self.tables.facts
        tokens, seconds = self._dense()
        if tables.collective is not None:
            seconds += self._collectives(tokens, tables.collective)
        if tables.moe is not None:
            seconds += self.layers * tables.moe.seconds(tokens, facts)
        return _ends_added(padded(_ends_added(np.stack([tokens, seconds])), self.graph_tokens or 0))

    def _dense(self) -> tuple[F8, F8]:
        """float64[P] each: tokens, and seconds of the dense layers."""
        dense = self.tables.dense
        tokens = np.array(sorted({float(t) for table in dense.values() for t in table[0]}))
        seconds = np.zeros(tokens.size)
        for layer, table in dense.items():
            times = 1 if layer in ONCE else self.layers * (2 if layer in TWICE else 1)
            seconds += times * along(table, tokens)
        return tokens, seconds

    def _collectives(self, tokens: F8, table: F8) -> F8:
        """float64[P], seconds of all collectives if the largest share of a device is `tokens`; `table` is by bytes."""
        facts = self.tables.facts
        return 2 * self.layers * along(table, tokens * facts.hidden * facts.bytes_each)

    def _by_requests(self) -> F8 | None:
        """float64[2, P]: requests, and seconds of the head and the sampler; None if the profile has no such table."""
        tables = list(self.tables.per_sequence.values())
        if not tables:
            return None
        requests = np.array(sorted({float(n) for table in tables for n in table[0]}))
        return _ends_added(np.stack([requests, sum((along(table, requests) for table in tables), np.zeros(requests.size))]))

    def _grid(self) -> F8:
        """float64[*], attention of all layers, as `batch_seconds.on_grid` reads it."""
        attention, skew = self.tables.attention, self.skew
        sizes = [float(axis.size) for axis in attention.axes]
        return np.concatenate([[*sizes, *skew], *attention.axes, (self.layers * attention.seconds).ravel()])


def _ends_added(lines: F8) -> F8:
    """A measured line, float64[2, P], for loops that extend it: level before its first point, `rise_after` after its last.

    If it begins above 1 (token or request), its first seconds are added at 1, too, and a point at twice its last one.
    """
    if lines[0, 0] > 1:
        lines = np.concatenate([[[1.0], [lines[1, 0]]], lines], axis=1)
    last, seconds = lines[:, -1]
    return np.concatenate([lines, [[2.0 * last], [seconds + rise_after(lines) * last]]], axis=1)


def along(table: F8, at: F8) -> F8:
    """Seconds at `at`, float64[N], on a measured line, float64[2, P]: before its first point, those of that point.

    After the last point they grow by `rise_after`.
    """
    last, seconds = table[:, -1]
    beyond = seconds + rise_after(table) * (at - last)
    return np.where(at <= table[0, 0], table[1, 0], np.where(at > last, beyond, on_lines(table, at)))


def captured(most: int) -> list[int]:
    """Batch sizes up to `most` for which vLLM by default captures CUDA graphs (`cudagraph_capture_sizes`), ascending."""
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, most + 1, 16)]
    return [size for size in sizes if size <= most]


def padded(lines: F8, most: int) -> F8:
    """Seconds by tokens, with batches padded to the next captured size up to `most`, if there is one.

    Args:
        lines: float64[2, P], tokens and seconds.
        most: most tokens of a batch that runs as a captured graph; 0 = no graphs, and `lines` is returned.

    Returns:
        float64[2, Q], a step for each captured size, then the given lines from ``most + 1`` tokens on.
    """
    sizes = captured(most)
    if not sizes:
        return lines
    # One batch size after another, each with the captured size that it is padded to.
    steps = {tokens: size for before, size in pairwise([0, *sizes]) for tokens in (before + 1, size)} | {most + 1: most + 1}
    ran = np.array([[*steps], [*steps.values()]], np.float64)
    return np.concatenate([[ran[0], along(lines, ran[1])], lines[:, lines[0] > most + 1]], axis=1)


batch_law = Profile
