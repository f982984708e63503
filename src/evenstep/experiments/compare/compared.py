"""The result of `evenstep.compare`: a comparison that prints, shows itself in notebooks, and exports tables and files."""

from __future__ import annotations

import io
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenstep import __version__, compiled
from evenstep.measure.comparison import Comparison
from evenstep.measure.frames import Tabular
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.experiments.contenders import Contender
    from evenstep.experiments.jobs import Plan

#: Most samples of every worker's load that a report draws.
SAMPLES = 2000
#: Most steps of a run that a report draws.
STEPS = 1 << 18


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Compared(Comparison, Tabular):
    """A comparison, with the plan and the contenders that produced it.

    ``print(found)`` shows its table and a notebook shows it as HTML; ``found["jsq"]`` is one policy's result. The other
    fields are those of `Comparison`.

    Args:
        plan: the workload, fleet, laws and seed that its runs share; None = `report` draws no charts of runs.
        asked: the contenders, in the order of `policies`.
    """

    plan: Plan | None = None
    asked: tuple[Contender, ...] = field(default=())

    @classmethod
    def of(cls, found: Comparison, plan: Plan, asked: Sequence[Contender]) -> Compared:
        """A copy of `found` with the plan, the contenders and this process's versions; `found` is not changed."""
        values: dict[str, Any] = {one.name: getattr(found, one.name) for one in fields(Comparison)}
        values["versions"] = versions()
        return cls(**values, plan=plan, asked=tuple(asked))

    def __repr__(self) -> str:
        names = ", ".join(result.policy for result in self.policies)
        return (
            f"<comparison of {names} on {self.trace.get('name') or 'a workload'}, {counted(len(self.seeds), 'replicate')}>"
        )

    def __str__(self) -> str:
        """The table that `evenstep compare` prints."""
        from evenstep.report.tables import print_comparison

        out = io.StringIO()
        print_comparison(self, out)
        return out.getvalue().rstrip("\n")

    def _repr_html_(self) -> str:
        """The tables of the report, for a notebook."""
        from evenstep.report.html import fragment

        return fragment(self)

    def to_arrow(self) -> Any:
        """A `pyarrow.Table` with a row a policy and replicate, policy by policy in the order asked.

        Columns are policy, predictor, oracle, seed, digest, and every metric that is a number or a bool. A figure without a
        value is null.
        """
        import pyarrow as pa

        rows = [
            {"policy": p.policy, "predictor": p.predictor, "oracle": p.oracle, "seed": seed, "digest": digest}
            | {name: value for name, value in summary.items() if isinstance(value, bool | int | float | None)}
            for p in self.policies
            for seed, digest, summary in zip(p.seeds, p.digests, p.summaries, strict=True)
        ]
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pa.table({name: [row.get(name) for row in rows] for name in names})

    def plot(self, metric: str = "idle_time_share", *, axes: Any = None) -> Any:
        """Draw a bar for each policy with its 95 % interval. All reports on the same policies have the same colours.

        Args:
            metric: a metric by name, as in `PolicyResult.mean`.
            axes: matplotlib axes to draw on, which are returned. None = return a new `Picture`: a notebook shows it,
                ``save("idle.svg")`` writes it.

        Raises:
            InputError: no such metric, or one that is not a number; or no axes.
        """
        from evenstep.report.policy_bars import bars_of

        return bars_of(self, metric).on(axes)

    def report(self, path: str | Path) -> Path:
        """Write the HTML report that ``evenstep compare --report`` writes; returns its path. An existing file is replaced.

        Each policy's first replicate is run once more in this process, for the record tables that the charts show. Without a
        `plan` nothing is run, and these charts are missing. `InputError` for a name that does not end in ``.html``, or a
        file that cannot be written.
        """
        from evenstep.experiments.compare.running import run_comparison
        from evenstep.measure.output_file import html_path, write_text
        from evenstep.report.html import page

        path = html_path(path)
        runs: dict[str, Any] = {}
        if self.plan is not None:
            plan = replace(self.plan, seeds=1, fewer=True, records=True, most_steps=STEPS, samples=SAMPLES)
            _, again = run_comparison(plan, list(self.asked))
            runs = {one.name: own[0] for one, own in zip(self.asked, again, strict=True)}
        write_text(path, page(self, runs))
        return path


def versions() -> dict[str, str]:
    """Versions of ``evenstep``, ``python`` and ``numpy``, and under ``kernels`` how rules run now (`compiled.mode`)."""
    packages = {"evenstep": __version__, "python": platform.python_version(), "numpy": version("numpy")}
    return {**packages, "kernels": compiled.mode()}
