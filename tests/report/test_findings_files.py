"""The files of a reproduction."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pyarrow.parquet as pq

from evenstep.measure.comparison import Interval
from evenstep.report.findings import Claim, Constant, Findings, Reproduction, Row
from evenstep.report.findings_files import page, table_of, write


def made(quick: bool = True) -> Reproduction:
    found = Findings(
        rows=[Row("a < b", "spread & more", "tokens", None, Interval(12.5, 12.0, 13.0))],
        claims=[Claim("it is <flat>", False, "1.5")],
        constants=[Constant("C", "60 ms", "not given")],
        remark="we differ in one thing",
        stands_in="a made workload",
        data={"x": [1, 2], "y": [0.5, 0.25]},
        draw=lambda figure: figure.add_subplot(1, 1, 1).plot([0, 1], [0, 1]),
        size=(3, 2),
    )
    return Reproduction("br-made", "a title", "Table 9", found, quick, 3)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_figure_data_and_page_are_written_with_what_they_are_of(tmp_path):
    written = write(made(), tmp_path / "deep" / "er")
    assert [p.name for p in written] == [f"br-made-quick.{kind}" for kind in ("svg", "png", "parquet", "html")]
    table = pq.read_table(written[2])
    assert table.to_pydict() == {"x": [1, 2], "y": [0.5, 0.25]}
    assert json.loads(table.schema.metadata[b"evenstep"])["quick"] is True
    assert written[1].read_bytes().startswith(b"\x89PNG")


def test_the_page_is_well_formed_escaped_and_loads_nothing():
    text = page(made(quick=False), "<?xml?><svg></svg>")
    tags = Tags()
    tags.feed(text.replace("<!doctype html>", ""))
    assert tags.open == []
    for part in (
        "a &lt; b",
        "does not hold",
        "it is &lt;flat&gt;",
        "60 ms",
        "we differ in one thing",
        "<svg>",
    ):
        assert part in text
    assert not re.search(r"(src|href)=", text)


def test_a_quick_page_says_so_and_gives_no_verdict():
    text = page(made(), "<svg></svg>")
    assert "QUICK" in text
    assert "does not hold" not in text


def test_heads_stand_over_the_numbers_of_their_columns():
    """``ours`` and ``difference`` stood at the left of columns that are flush right."""
    text = page(made(), "<svg></svg>")
    assert text.count('<table class="texts numbers">') == 1
    assert "table.numbers :is(th, td):nth-child(n + 4) { text-align: right;" in text


def test_names_of_modules_and_files_break_at_their_marks_and_numbers_do_not():
    page = table_of(["code"], [["routing.policies.bf_io, tests/report, 0.5 <x>"]])
    assert "<td>routing.<wbr>policies.<wbr>bf_<wbr>io, tests/<wbr>report, 0.5 &lt;x&gt;</td>" in page
