"""The claims of the five papers, item by item, with code, command and verdict: as an HTML page of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from evenstep.report import html
from evenstep.report.findings import QUICK, Reproduction, verdict
from evenstep.report.findings_files import table_of

#: ``holds``: our results show the claim; ``holds within``: in part, or with the limits in `why`.
Verdict = Literal["holds", "holds within", "does not", "not ours to have"]


@dataclass(frozen=True, slots=True)
class Item:
    """One row: a claim of a paper, and where it is tested here."""

    of: tuple[str, ...]  # the paper's own names of it, such as ``Theorem 1``
    says: str  # the claim, in one sentence
    #: the result at full size; for a definition or an algorithm, that of its implementation. Empty in the data file if it
    #: follows from the recorded claims of `run`; one given beside a `run` is weaker than they are.
    verdict: Verdict | Literal[""] = ""
    why: str = ""  # what limits the verdict, with figures; empty only if the verdict is ``holds``
    code: tuple[str, ...] = ()  # modules or attributes below ``evenstep``
    run: tuple[str, ...] = ()  # experiments of ``evenstep reproduce``
    claims: tuple[str, ...] = ()  # words that pick the claims of `run` which decide the verdict; empty = all claims
    test: tuple[str, ...] = ()  # files or folders below ``tests``
    also: str = ""  # another whole command line, or empty

    @property
    def commands(self) -> tuple[str, ...]:
        """Command lines that test the item: ``evenstep reproduce`` for each of `run`, then `also`; else pytest calls."""
        named = tuple(f"evenstep reproduce {name}" for name in self.run) + ((self.also,) if self.also else ())
        return named or tuple(f"pytest tests/{place}" for place in self.test)


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper: its short name, its title, and its items in the paper's order."""

    name: str
    title: str
    rows: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Papers:
    """The content of the data file ``experiments/papers/papers.yaml``: all papers, in the order shown."""

    papers: tuple[Paper, ...]


def page(papers: Sequence[Paper], found: Mapping[str, Reproduction | str], command: str = "") -> str:
    """The HTML page, as text, on a run of experiments; it loads nothing and links to the page of each experiment.

    `found`: name of an experiment -> its reproduction, or a text on why it did not run. Others are not shown.
    """
    ran = [one for one in found.values() if isinstance(one, Reproduction)]
    quick = f'<p class="quick">{escape(QUICK)}</p>' if any(one.quick for one in ran) else ""
    lead = f"""<h1>What five papers say, and what comes out here</h1>
<p>Recorded: the verdict of a run at full size. This run: the claims that each experiment tests, by 95 % intervals.</p>
{quick}"""
    sections = (_section(paper, found) for paper in papers)
    return html.document("five papers", [lead, *sections, f"<footer>{escape(command)}</footer>"])


def _section(paper: Paper, found: Mapping[str, Reproduction | str]) -> str:
    """A paper as HTML: its table of items, and then its experiments that are in `found`."""
    rows = [[", ".join(i.of), i.says, ", ".join(i.code), ", ".join(i.commands), i.verdict, i.why] for i in paper.rows]
    names = dict.fromkeys(name for item in paper.rows for name in item.run if name in found)
    items = table_of(["item", "what", "code", "command", "recorded", "why"], rows)
    return f"<h2>{escape(paper.name)}</h2><p>{escape(paper.title)}</p>{items}{''.join(_run(n, found[n]) for n in names)}"


def _run(name: str, found: Reproduction | str) -> str:
    """One experiment as HTML: its claims with verdicts, or why it did not run."""
    if isinstance(found, str):
        return f"<h3>{escape(name)}</h3><p>did not run: {escape(found)}</p>"
    claims = [[verdict(claim, found.quick), claim.says, claim.seen] for claim in found.findings.claims]
    told = table_of(["this run", "claim", "ours"], claims) if claims else ""
    link = f'<a href="{escape(found.stem)}.html">{escape(name)}</a>'
    return f"<h3>{link}: {escape(found.title)}</h3>{told}<p>{escape(found.findings.remark)}</p>"
