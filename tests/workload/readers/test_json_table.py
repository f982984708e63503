from __future__ import annotations

import tracemalloc

import pytest

from evenstep.errors import InputError
from evenstep.workload.readers import json_table


def test_the_keys_of_the_first_object_are_found_even_when_its_line_is_cut():
    assert json_table.keys(b'{"a": 1, "b": [2]}\n{"c": 3}\n') == {"a", "b"}
    assert {"a", "b"} <= json_table.keys(b'{"a": 1, "b": [2, 3')
    assert json_table.keys(b"a,b\n1,2\n") == set()
    assert json_table.keys(b"[1, 2]\n") == set()


def test_aliases_are_taken_row_by_row_in_their_order(write):
    path = write("a.jsonl", '{"n": 1}\n{"m": 2}\n{"m": 3, "n": 4}\n')
    table = json_table.table(path, {"n": ("n", "m"), "z": ("z",)}, skip_bad_rows=False)
    assert table.whole("n").tolist() == [1, 2, 4]
    assert not table.has("z")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"a\.jsonl:2: line is '{'; expected one JSON object"),
        ("[1]", r"a\.jsonl:2: line is '\[1\]'"),
        ("", r"a\.jsonl:2: line is 'a blank line'"),
        ('{"n": NaN}', r"a\.jsonl:2: n is nan"),
        ('{"n": 1.5}', r"a\.jsonl:2: n is 1\.5"),
        ('{"n": true}', r"a\.jsonl:2: n is True"),
        ('{"n": null}', r"a\.jsonl:2: n is None"),
        ("{}", r"a\.jsonl:2: n is missing"),
    ],
)
def test_a_bad_line_is_named_or_skipped_and_counted(write, line, message):
    path = write("a.jsonl", f'{{"n": 1}}\n{line}\n{{"n": 3}}\n')
    with pytest.raises(InputError, match=message):
        json_table.table(path, {"n": ("n",)}, skip_bad_rows=False).whole("n")
    table = json_table.table(path, {"n": ("n",)}, skip_bad_rows=True)
    assert table.whole("n")[table.good].tolist() == [1, 3]
    assert "1 bad row" in table.notes()[0]


def test_blank_lines_are_passed_over_where_the_format_has_them(write):
    path = write("a.jsonl", '{"n": 1}\n\n  \n{"n": 2}\n\n')
    table = json_table.table(path, {"n": ("n",)}, skip_bad_rows=False, blank_lines=True)
    assert (table.whole("n").tolist(), table.lines.tolist()) == ([1, 2], [1, 4])


def test_fields_that_nobody_asked_for_are_not_kept(write):
    path = write("x.jsonl", "".join(f'{{"n": {row}, "text": "{"x" * 1000}"}}\n' for row in range(8000)))
    tracemalloc.start()
    try:
        table = json_table.table(path, {"n": ("n",)}, skip_bad_rows=False)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert table.column("n") == list(range(8000))
    assert most < path.stat().st_size // 2
