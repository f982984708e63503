"""The findings of a reproduction: the paper's numbers next to ours; as a table, CSV, LaTeX or JSON (`findings_files`)."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from evenstep.measure.comparison import Interval
from evenstep.report.numbers import MISSING
from evenstep.report.tables import aligned, mean_text

#: Said wherever a run at the reduced size is shown.
QUICK = "QUICK: a reduced size that shows that it runs; its figures are no evidence for or against the paper"
_VERDICTS = {True: "holds", False: "does not hold", None: "not settled"}


@dataclass(frozen=True, slots=True)
class Row:
    """One number of a paper next to ours.

    Args:
        case: the policy, predictor or sweep point it belongs to.
        quantity: name of the measured quantity.
        unit: of the paper's number and of ours.
        paper: the paper's number, or a range as text; None if it prints none.
        ours: mean over replicates and its 95 % interval.
        difference: ours minus that of `against`, replicate by replicate; None without a comparison.
        against: the case it is compared with.
    """

    case: str
    quantity: str
    unit: str
    paper: float | str | None
    ours: Interval
    difference: Interval | None = None
    against: str = ""


@dataclass(frozen=True, slots=True)
class Constant:
    """A number or choice that the paper leaves open, or that we changed: named, never silent."""

    name: str
    value: object
    why: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper and what we saw.

    Args:
        says: the claim.
        holds: whether it holds here; None where the intervals do not settle it.
        seen: our figures for it.
    """

    says: str
    holds: bool | None
    seen: str


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """The complete result of one reproduction.

    Args:
        rows: numbers, in the paper's order.
        claims: sentences of the paper, tested.
        constants: every free constant.
        remark: one sentence: where and why we differ.
        stands_in: substitutes for data or machines that are not available.
        data: columns of one long table, all of the same length: the data of the figure.
        draw: puts the figure on a matplotlib figure.
        size: of the figure, inches.
        intervals: kind of the intervals, if they are not t-intervals over replicates.
    """

    rows: Sequence[Row]
    claims: Sequence[Claim]
    constants: Sequence[Constant]
    remark: str
    stands_in: str
    data: Mapping[str, Any]
    draw: Callable[[Any], None]
    size: tuple[float, float] = (9.0, 5.0)
    intervals: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Reproduction:
    """Findings with what they are of and how they were made.

    Args:
        name, title, source: of the experiment.
        findings: what came out.
        quick: whether at the reduced size.
        seeds: replicates.
        command: the command line, or empty.
        versions: version by component.
    """

    name: str
    title: str
    source: str
    findings: Findings
    quick: bool
    seeds: int
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def stem(self) -> str:
        """The name of its files, without suffix."""
        return f"{self.name}-quick" if self.quick else self.name


def with_interval(value: Interval | None) -> str:
    """``12.3 ±0.4``, the mean and half a 95 % interval; without one for a single replicate."""
    return "" if value is None else mean_text(value)


def _signed(value: Interval | None) -> str:
    text = with_interval(value)
    return text if not text or text[0] in "-0" else f"+{text}"


def _paper(value: float | str | None) -> str:
    return MISSING if value is None else value if isinstance(value, str) else f"{value:,g}"


def text_lines(found: Reproduction) -> list[str]:
    """The findings for a terminal."""
    said = found.findings
    lines = [f"{found.name}: {found.title}", f"source: {found.source}"]
    if found.quick:
        lines.append(QUICK)
    lines += ["", *aligned(cells(said.rows), left=range(3)), ""]
    lines.append(intervals_sentence(found))
    if said.claims:
        lines += ["", "A claim is tested for its direction, by 95 % intervals; the paper's size and ours stand beside it."]
    for claim in said.claims:
        lines.append(f"  {verdict(claim, found.quick)}: {claim.says}; ours: {claim.seen}")
    where = " (sizes are those of --quick)" if found.quick else ""
    lines += ["", f"where and why we differ: {said.remark}", f"stands in: {said.stands_in}", "", f"free constants{where}:"]
    lines += [f"  {c.name} = {c.value}: {c.why}" for c in said.constants]
    return lines


def intervals_sentence(found: Reproduction) -> str:
    """A sentence on what the intervals are."""
    if found.findings.intervals:
        return found.findings.intervals
    if found.seeds == 1:
        return "One replicate: no intervals."
    return f"± is half a 95 % t-interval over {found.seeds} replicates; differences are paired, replicate by replicate."


def verdict(claim: Claim, quick: bool) -> str:
    """The verdict on a claim; a quick run gives no verdict."""
    return "no verdict at this size" if quick else _VERDICTS[claim.holds]


def cells(rows: Sequence[Row]) -> list[list[str]]:
    """The headings, then one list of texts for each row; the column of differences is omitted if it is empty."""
    found = [_HEAD, *map(_cells_of, rows)]
    return found if any(row[-1] for row in found[1:]) else [row[:-1] for row in found]


_HEAD = ["case", "quantity", "unit", "paper", "ours", "difference"]


def _cells_of(row: Row) -> list[str]:
    difference = "" if row.difference is None else f"{_signed(row.difference)} vs {row.against}"
    return [row.case, row.quantity, row.unit, _paper(row.paper), with_interval(row.ours), difference]


#: Header of the CSV form.
_CSV = "experiment case quantity unit paper ours low high difference difference_low difference_high against seeds quick"


def csv_text(found: Reproduction) -> str:
    """CSV text with a header and a line for each row; cells without a value are empty."""
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


_LATEX = {letter: rf"\{letter}" for letter in "&%$#_{}"} | {
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "<": r"$<$",
    ">": r"$>$",
}


def latex_text(found: Reproduction) -> str:
    """A LaTeX ``tabular``; it needs the package booktabs."""
    lines = [
        rf"% evenstep reproduce {found.name}{' --quick (reduced size, no evidence)' if found.quick else ''}, "
        f"{found.seeds} replicates",
        r"% \usepackage{booktabs}",
        r"\begin{tabular}{lllrrr}",
        r"\toprule",
        rf"{' & '.join(_HEAD)} \\",
        r"\midrule",
        *(" & ".join(map(_escaped, _cells_of(row))) + r" \\" for row in found.findings.rows),
    ]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def json_object(found: Reproduction) -> dict[str, Any]:
    """Everything but the figure and its data, as JSON values."""
    said = found.findings
    found_object: dict[str, Any] = {
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
        "claims": [_claim_object(claim, found.quick) for claim in said.claims],
        "constants": [{**asdict(c), "value": str(c.value)} for c in said.constants],
        "remark": said.remark,
        "stands_in": said.stands_in,
    }
    return _without_nan(found_object)


def _claim_object(claim: Claim, quick: bool) -> dict[str, Any]:
    """A claim with the verdict the table shows; `holds` is null where it is not settled, or withheld."""
    return {**asdict(claim), "holds": None if quick else claim.holds, "verdict": verdict(claim, quick)}


def _without_nan(value: Any) -> Any:
    """JSON has no nan or infinity: a figure without a value is null."""
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
