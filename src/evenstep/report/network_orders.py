"""Runs of a network under one order of calls or several, as a result that prints, shows itself in notebooks, and exports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenstep.errors import check_known
from evenstep.measure.frames import Tabular
from evenstep.measure.output_file import html_path, write_text
from evenstep.report.figures import Picture, labelled
from evenstep.report.network_page import MOST_ENGINES, OVER_TIME, fragment, order_lines, page
from evenstep.report.svg import colour_of, series_of
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.measure.network_records import NetworkRun, Ordered
    from evenstep.theory.stations import Judged


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NetworkOrders(Tabular):
    """Runs of a network under one order of calls or several. Iterating gives the orders.

    ``print(found)`` shows its tables and a notebook shows them as HTML; ``found["fcfs"]`` and ``found[0]`` are one order.

    Args:
        orders: the results, in the order asked; at least one.
        judge: computes the engines' loads for the report; None = the report has no loads.
    """

    orders: tuple[Ordered, ...]
    judge: Callable[[], Judged] | None = None

    def __repr__(self) -> str:
        runs = self.orders[0].runs
        name = runs[0].name or "a network"
        return f"<comparison of {', '.join(one.order for one in self)} on {name}, {counted(len(runs), 'replicate')}>"

    def __iter__(self) -> Iterator[Ordered]:
        return iter(self.orders)

    def __len__(self) -> int:
        return len(self.orders)

    def __contains__(self, order: object) -> bool:
        """True for one of the results, and for the name of its order."""
        return any(order in (one, one.order) for one in self)

    def __getitem__(self, order: int | str) -> Ordered:
        """The result of an order, by its place or its name. Raises `InputError` for an unknown name."""
        if not isinstance(order, str):
            return self.orders[order]
        known = {one.order: one for one in self}
        check_known("comparison", "order", order, known, "one of the orders compared")
        return known[order]

    def __str__(self) -> str:
        """The tables that `evenstep network run` prints."""
        return "\n".join(order_lines(self.orders))

    def _repr_html_(self) -> str:
        """The tables of the report, for a notebook."""
        return fragment(self.orders)

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with a row a task of every run, order by order (`NetworkRun.to_arrow`)."""
        import pyarrow as pa

        return pa.concat_tables([run.to_arrow() for one in self for run in one.runs])

    def page(self, command: str = "") -> str:
        """The report as HTML text; it names the command line, unless `command` is empty."""
        return page(self.orders, self.judge() if self.judge is not None else None, command)

    def report(self, path: str | Path) -> Path:
        """Write the HTML report that ``evenstep network run --report`` writes; returns its path. An old file is replaced.

        Raises:
            InputError: a name that does not end in ``.html``, or a file that cannot be written.
        """
        path = html_path(path)
        write_text(path, self.page())
        return path


def network_lines(run: NetworkRun, metric: str) -> Picture:
    """A chart of a run over time, a line for each of the first 16 engines; `InputError` if `OVER_TIME` lacks the metric."""
    check_known("plot", "metric", metric, OVER_TIME, "a known metric")

    def draw(axes: Any) -> None:
        for k, (name, number) in enumerate(series_of(list(run.engines)[:MOST_ENGINES]).items()):
            axes.plot(run.times_s, getattr(run, metric)[:, k], color=colour_of(number), label=name, lw=1)
        labelled(axes, "time, s", OVER_TIME[metric], legend=True)

    return Picture(draw, 3.0)
