"""The files of a reproduction: figure (SVG, PNG), data (Parquet) and a self-contained HTML page with everything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from evenstep.measure.output_file import make_folder, replacing
from evenstep.measure.parquet import write_columns
from evenstep.report import html
from evenstep.report.figures import picture
from evenstep.report.findings import QUICK, Reproduction, cells, intervals_sentence, json_object, verdict


def write(found: Reproduction, folder: Path) -> list[Path]:
    """Write the figure (SVG and PNG), its data (Parquet) and the page (HTML), named by `Reproduction.stem`, into a folder.

    The folder is made when missing; files of these names are replaced. Returns the four paths in that order.

    Raises:
        InputError: the folder or a file cannot be written.
    """
    make_folder(folder)

    def draw(figure: Any) -> None:
        found.findings.draw(figure)
        figure.suptitle(f"{_heading(found)}\n{'QUICK SIZE, ' if found.quick else ''}{found.source}", fontsize=10)

    svg, png = (picture(draw, kind, found.findings.size) for kind in ("svg", "png"))
    paths = {kind: folder / f"{found.stem}.{kind}" for kind in ("svg", "png", "parquet", "html")}
    for kind, content in (("svg", svg), ("png", png), ("html", page(found, svg.decode()).encode())):
        with replacing(paths[kind]) as out:
            out.write(content)
    write_columns(found.findings.data, paths["parquet"], "findings", json_object(found))
    return [*paths.values()]


def page(found: Reproduction, drawing: str) -> str:
    """The HTML page of a reproduction as text; it loads nothing. `drawing`, the figure, is text with an ``<svg`` in it."""
    said = found.findings
    head, *rows = cells(said.rows)
    claims = [[verdict(claim, found.quick), claim.says, claim.seen] for claim in said.claims]
    constants = [[c.name, str(c.value), c.why] for c in said.constants]
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    quick = f'<p class="quick">{escape(QUICK)}</p>' if found.quick else ""
    body = f"""<h1>{escape(_heading(found))}</h1>
<p>{escape(found.source)}</p>{quick}
{drawing[drawing.index("<svg") :]}
<h2>Numbers</h2>{table_of(head, rows, "texts numbers")}<p>{escape(intervals_sentence(found))}</p>
<h2>Claims of the paper</h2>{table_of(["verdict", "claim", "ours"], claims) if claims else "<p>It makes none to test.</p>"}
<h2>Where and why we differ</h2><p>{escape(said.remark)}.</p>
<p>Stands in: {escape(said.stands_in)}.</p>
<h2>Free constants</h2>{table_of(["name", "value", "why"], constants)}
<footer>{escape(found.command)}<br>{escape(versions)}</footer>"""
    return html.document(found.name, [body])


def table_of(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "texts") -> str:
    """An HTML table of plain texts, which are escaped here; `kind` ``texts numbers``: numbers from the fourth column on."""
    return html.table([(name, "") for name in head], ([*map(_breakable, row)] for row in rows), kind)


def _heading(found: Reproduction) -> str:
    """The title with a capital letter, as that of a page or a picture."""
    return found.title[:1].upper() + found.title[1:]


def _breakable(text: str) -> str:
    """The text as HTML in which a long name of a module or file may wrap at its dots, underscores and slashes."""
    return re.sub(r"(?<=[a-z])([._/])(?=[a-z])", r"\1<wbr>", escape(text))
