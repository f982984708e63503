"""The files of a reproduction: figure (SVG, PNG), data (Parquet) and a self-contained HTML page with everything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from evenstep.measure.output_file import make_folder, replacing
from evenstep.measure.parquet import write_columns
from evenstep.report.figures import picture
from evenstep.report.findings import QUICK, Reproduction, cells, intervals_sentence, json_object, verdict

#: CSS of pages of findings.
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
td { overflow-wrap: break-word; }
th, td { text-align: left; padding: .15rem .9rem .15rem 0; vertical-align: top; border-bottom: 1px solid #e4e4e4; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.quick { background: #fff3cd; padding: .5rem .8rem; }
footer { color: #666; margin-top: 2rem; }
"""


def write(found: Reproduction, folder: Path) -> list[Path]:
    """Write the figure (SVG and PNG), its data (Parquet) and the page (HTML), named by `Reproduction.stem`, into a folder.

    The folder is made when missing; files of these names are replaced. Returns the four paths in that order.

    Raises:
        InputError: the folder or a file cannot be written.
    """
    make_folder(folder)

    def draw(figure: Any) -> None:
        found.findings.draw(figure)
        figure.suptitle(f"{found.title}\n{'QUICK SIZE, ' if found.quick else ''}{found.source}", fontsize=10)

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
    parts = f"""<h1>{escape(found.title)}</h1>
<p>{escape(found.source)}</p>{quick}
{drawing[drawing.index("<svg") :]}
<h2>Numbers</h2>{table_of(head, rows, numbers=3)}<p>{escape(intervals_sentence(found))}</p>
<h2>Claims of the paper</h2>{table_of(["verdict", "claim", "ours"], claims) if claims else "<p>It makes none to test.</p>"}
<h2>Where and why we differ</h2><p>{escape(said.remark)}.</p>
<p>Stands in: {escape(said.stands_in)}.</p>
<h2>Free constants</h2>{table_of(["name", "value", "why"], constants)}
<footer>{escape(found.command)}<br>{escape(versions)}</footer>"""
    return plain_page(found.name, parts)


def plain_page(title: str, body: str) -> str:
    """A whole HTML page with the style of `STYLE`, as text. `title` is plain text; `body` is HTML and used as it is."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)}</title><style>{STYLE}</style></head><body>
{body}
</body></html>
"""


def table_of(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 99) -> str:
    """An HTML table of plain texts, which are escaped here; columns from index `numbers` on, from 0, are flush right."""

    def row(values: Sequence[str]) -> str:
        found = (
            f'<td class="n">{escape(v)}</td>' if i >= numbers else f"<td>{_breakable(v)}</td>" for i, v in enumerate(values)
        )
        return f"<tr>{''.join(found)}</tr>"

    return f"<table><tr>{''.join(f'<th>{escape(v)}</th>' for v in head)}</tr>{''.join(row(r) for r in rows)}</table>"


def _breakable(text: str) -> str:
    """The text as HTML in which a long name of a module or file may wrap at its dots, underscores and slashes."""
    return re.sub(r"(?<=[a-z])([._/])(?=[a-z])", r"\1<wbr>", escape(text))
