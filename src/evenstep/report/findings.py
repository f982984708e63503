"""The findings of a reproduction: the paper's numbers next to ours; as a table, CSV, LaTeX or JSON (`findings_files`)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from evenstep.measure.comparison import Interval
from evenstep.report.numbers import MISSING
from evenstep.report.tables import aligned, mean_text
from evenstep.wording import counted

#: Shown with every run at the reduced size.
QUICK = "QUICK: a reduced size that shows that it runs; its figures are no evidence for or against the paper"
_VERDICTS = {True: "holds", False: "does not hold", None: "not settled"}


@dataclass(frozen=True, slots=True)
class Row:
    """One number of a paper next to ours."""

    case: str  # the policy, predictor or sweep point it belongs to
    quantity: str  # name of the measured quantity
    unit: str  # of the paper's number and of ours; empty for a plain number
    paper: float | str | None  # the paper's number, or a range as text; None if it gives no number
    ours: Interval  # our mean over replicates and its 95 % interval
    #: our number of this case minus that of the case `against`, replicate by replicate; None = not compared
    difference: Interval | None = None
    against: str = ""  # the case of the same quantity it is compared with; empty without a comparison


@dataclass(frozen=True, slots=True)
class Constant:
    """A number or choice that the paper leaves open, or that we changed: its name, our value, and the reason for it."""

    name: str
    value: object
    why: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper and what our runs showed."""

    says: str  # the claim, as a sentence
    holds: bool | None  # True or False in our runs; None if the intervals do not settle it
    seen: str  # our figures for it, as text


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """The complete result of one reproduction."""

    rows: Sequence[Row]  # numbers, in the paper's order
    claims: Sequence[Claim]  # sentences of the paper, tested
    constants: Sequence[Constant]  # every number or choice that the paper leaves open or that we changed
    remark: str  # one sentence, without its full stop, on where and why we differ from the paper
    stands_in: str  # our substitutes for data or machines that are not available, as text without a full stop
    data: Mapping[str, Any]  # the data of the figure: columns by name, all of the same length
    draw: Callable[[Any], None]  # puts the drawing on the matplotlib figure that it gets
    size: tuple[float, float] = (9.0, 5.0)  # width and height of the figure, inches
    intervals: str = ""  # a sentence on the kind of the intervals; empty = they are t-intervals over replicates
    replicates: int | None = None  # number of replicates, if it is not that of the setting; None = it is


@dataclass(frozen=True, slots=True, eq=False)
class Reproduction:
    """The findings of an experiment, with its description and the way they were made."""

    name: str  # of the experiment, for ``evenstep reproduce``
    title: str  # of the experiment
    source: str  # its place in the paper
    findings: Findings  # the results
    quick: bool  # True if it ran at the reduced size, which is no evidence
    seeds: int  # number of replicates; `Findings.intervals` names parts with another number
    command: str = ""  # the command line, or empty
    versions: Mapping[str, str] = field(default_factory=dict[str, str])  # version by component, for instance ``evenstep``

    @property
    def stem(self) -> str:
        """The name of its files without suffix: `name` without folders, followed by ``-quick`` at the reduced size."""
        return f"{Path(self.name).name}-quick" if self.quick else Path(self.name).name


def text_lines(found: Reproduction) -> list[str]:
    """The findings as lines for a terminal: title, table of numbers, claims with verdicts, remarks, constants."""
    said = found.findings
    lines = [f"{found.name}: {found.title}", f"source: {found.source}"]
    if found.quick:
        lines.append(QUICK)
    lines += ["", *aligned(cells(said.rows), left=range(3)), "", intervals_sentence(found)]
    if said.claims:
        lines += ["", "A claim is tested for its direction, by 95 % intervals; the paper's size and ours stand beside it."]
    for claim in said.claims:
        lines.append(f"  {verdict(claim, found.quick)}: {claim.says}; ours: {claim.seen}")
    where = " (sizes are those of --quick)" if found.quick else ""
    lines += ["", f"where and why we differ: {said.remark}", f"stands in: {said.stands_in}", "", f"free constants{where}:"]
    lines += [f"  {c.name} = {c.value}: {c.why}" for c in said.constants]
    return lines


def intervals_sentence(found: Reproduction) -> str:
    """A sentence on the intervals: `Findings.intervals` if given, else on t-intervals or on having one replicate."""
    if found.findings.intervals:
        return found.findings.intervals
    if found.seeds == 1:
        return "One replicate: no intervals."
    return f"± is half a 95 % t-interval over {found.seeds} replicates; differences are paired, replicate by replicate."


def verdict(claim: Claim, quick: bool) -> str:
    """``holds``, ``does not hold`` or ``not settled``; for a quick run ``no verdict at this size``."""
    return "no verdict at this size" if quick else _VERDICTS[claim.holds]


def cells(rows: Sequence[Row]) -> list[list[str]]:
    """Headings, then a list of texts for each row: case, quantity, unit, paper, ours, and difference if any row has one."""
    found = [_HEAD, *map(_cells_of, rows)]
    return found if any(row[-1] for row in found[1:]) else [row[:-1] for row in found]


_HEAD = ["case", "quantity", "unit", "paper", "ours", "difference"]


def _cells_of(row: Row) -> list[str]:
    """The six texts of a row under `_HEAD`; the difference is empty if there is no comparison."""
    paper = row.paper or MISSING if isinstance(row.paper, str | None) else f"{row.paper:,g}"
    difference = ""
    if row.difference is not None:
        difference = f"{'+' if row.difference.value > 0 else ''}{mean_text(row.difference)} vs {row.against}"
    return [row.case, row.quantity, row.unit, paper, mean_text(row.ours), difference]


#: Header of the CSV form.
_CSV = "experiment case quantity unit paper ours low high difference difference_low difference_high against seeds quick"


def csv_text(found: Reproduction) -> str:
    """CSV text with a header and a line for each row of numbers, in full precision; a missing value is an empty cell.

    ``low`` and ``high`` are the ends of the interval of ``ours``; ``seeds`` is the number of replicates.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV.split())
    for r in found.findings.rows:
        d = r.difference
        apart = (None, None, None) if d is None else (d.value, d.low, d.high)
        ours = (r.ours.value, r.ours.low, r.ours.high)
        about = (found.name, r.case, r.quantity, r.unit, r.paper)
        writer.writerow([*about, *ours, *apart, r.against, found.seeds, str(found.quick).lower()])
    return out.getvalue()


_LATEX = str.maketrans(
    {letter: rf"\{letter}" for letter in "&%$#_{}"}
    | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
    | {"±": r"$\pm$", "<": r"$<$", ">": r"$>$"}
)


def latex_text(found: Reproduction) -> str:
    """The rows of numbers as a LaTeX ``tabular`` with escaped special characters; it needs the package booktabs."""
    lines = [
        rf"% evenstep reproduce {found.name}{' --quick (reduced size, no evidence)' if found.quick else ''}, "
        + counted(found.seeds, "replicate"),
        r"% \usepackage{booktabs}",
        r"\begin{tabular}{lllrrr}",
        r"\toprule",
        rf"{' & '.join(_HEAD)} \\",
        r"\midrule",
        *(" & ".join(cell.translate(_LATEX) for cell in _cells_of(row)) + r" \\" for row in found.findings.rows),
    ]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def json_object(found: Reproduction) -> dict[str, Any]:
    """The whole reproduction except the figure and its data, as a JSON-ready dict; nan and infinity become None.

    A claim also has ``verdict``, the text of `verdict`; its ``holds`` is None for a quick run.
    """
    said = found.findings
    everything: dict[str, Any] = {
        "version": 1,
        "experiment": found.name,
        "title": found.title,
        "source": found.source,
        "quick": found.quick,
        "seeds": found.seeds,
        "command": found.command,
        "versions": dict(found.versions),
        "interval": intervals_sentence(found),
        "rows": [asdict(row) for row in said.rows],
        "claims": [
            {**asdict(claim), "holds": None if found.quick else claim.holds, "verdict": verdict(claim, found.quick)}
            for claim in said.claims
        ],
        "constants": [{**asdict(c), "value": str(c.value)} for c in said.constants],
        "remark": said.remark,
        "stands_in": said.stands_in,
    }
    return orjson.loads(orjson.dumps(everything, option=orjson.OPT_SERIALIZE_NUMPY))
