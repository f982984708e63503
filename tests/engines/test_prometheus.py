"""A few lines of a Prometheus page."""

from __future__ import annotations

import math

import pytest

from evenstep.engines.metrics.prometheus import Line, lines, wanted, whole
from evenstep.errors import EngineError

PAGE = rb"""# HELP a:x Something a:x 1
# TYPE a:x gauge
a:x{engine="0",path="C:\\d\n,\"q\"}{"} 3.5 1395066363000
a:x_total 1
b:x 1
a:y	1e3
a:x{} +Inf
a:y NaN
"""


def test_only_whole_names_are_read_with_their_labels():
    found = lines(PAGE, wanted(["a:x", "a:y"]))
    assert found[0] == Line("a:x", {"engine": "0", "path": 'C:\\d\n,"q"}{'}, 3.5)
    assert found[1] == Line("a:y", {}, 1000.0)
    assert found[2] == Line("a:x", {}, math.inf)
    assert math.isnan(found[3].value) and len(found) == 4


def test_an_exemplar_after_a_value_is_neither_its_value_nor_a_label():
    assert lines(b'a:x{engine="0"} 5 # {trace_id="7"} 3 1.5\n', wanted(["a:x"])) == [Line("a:x", {"engine": "0"}, 5.0)]


def test_a_value_that_is_no_number_is_the_engines_error():
    with pytest.raises(EngineError, match="a:x is 'three'"):
        lines(b"a:x three\n", wanted(["a:x"]))


def test_a_label_that_is_no_whole_number_counts_as_0():
    assert [whole(label) for label in ("12", "", "x", "-1", "²", "9" * 5000)] == [12, 0, 0, 0, 0, 0]
