"""The numbers of a batch and of a law."""

import numpy as np
import pytest

from evenstep import names
from evenstep.cost.batch import FEATURES, Batch, add, batch_law_of, check_numbers, layout, on_lines, rise_after
from evenstep.errors import InputError


def test_a_batch_is_as_many_numbers_as_it_has_fields():
    assert Batch().features.size == FEATURES
    assert np.array_equal(Batch(tokens=3, longest=9).features, [3, 0, 0, 0, 0, 0, 0, 0, 9])


@pytest.mark.parametrize(("name", "field"), [("affine-kv", "d0_s"), ("unit", "seconds_each"), ("long-context", "beta_s")])
def test_a_bad_number_is_named(name, field):
    with pytest.raises(InputError, match=field):
        names.build("batch", {"name": name, field: "-1"})


def test_a_batch_of_two_decodes_and_two_chunks_by_hand():
    """Decodes after 7 and 5 tokens; a chunk of 4 tokens after 3, and one of 2 at the start of its prompt."""
    content = np.zeros(FEATURES)
    for tokens, before, decodes in ((1, 7, True), (4, 3, False), (1, 5, True), (2, 0, False)):
        add(content, tokens, before, decodes)
    expected = Batch(
        tokens=8,
        requests=4,
        decodes=2,
        prefill_tokens=6,
        kv=8 + 7 + 6 + 2,
        chunk_squares=16 + 4,
        crossed=12,
        decode_context=12,
        longest=7,
    )
    assert content.tolist() == expected.features.tolist()


def test_the_numbers_of_a_law_are_constants_counts_of_knots_and_tables():
    tokens, requests = np.array([[0.0, 8.0, 16.0], [1.0, 2.0, 4.0]]), np.array([[0.0, 1.0], [0.0, 3.0]])
    grid = np.array([5.0, 6.0])
    assert layout().tolist() == [0.0] * 8
    rates = {"constant": 1.0, "per_kv": 2.0, "per_square": 3.0, "per_crossed": 4.0, "per_decode": 5.0}
    law = layout(**rates, tokens=tokens, requests=requests, grid=grid)
    assert law.tolist() == [1, 2, 3, 4, 5, 3, 2, 1, 0, 8, 16, 1, 2, 4, 0, 1, 0, 3, 5, 6]


def test_lines_go_through_their_knots_and_on_beyond_both_ends():
    lines = np.array([[10.0, 20.0, 40.0], [1.0, 3.0, 4.0]])
    at = {0: -1.0, 10: 1.0, 15: 2.0, 20: 3.0, 30: 3.5, 40: 4.0, 60: 5.0}
    for x, seconds in at.items():
        assert on_lines(lines, x) == pytest.approx(seconds), x
    assert on_lines(lines, np.array(list(at))) == pytest.approx(list(at.values()))


def test_after_its_end_a_line_rises_as_over_its_upper_half():
    assert rise_after(np.array([[0.0, 10.0, 20.0, 40.0], [0.0, 5.0, 6.0, 16.0]])) == (16 - 6) / (40 - 20)
    assert rise_after(np.array([[0.0, 30.0, 40.0], [0.0, 3.0, 12.0]])) == (12 - 2) / (40 - 20)  # 2 seconds at 20
    assert rise_after(np.array([[30.0, 40.0], [3.0, 12.0]])) == (12 - 3) / (40 - 30)  # from the first point
    assert rise_after(np.array([[0.0, 10.0, 40.0], [0.0, 9.0, 3.0]])) == 0.0


def test_a_number_of_a_law_is_finite_and_not_below_0():
    check_numbers("law", a=0.0, b=3.5)
    for bad in (-1e-9, float("inf"), float("nan")):
        with pytest.raises(InputError, match="law: b is"):
            check_numbers("law", a=0.0, b=bad)


@pytest.mark.parametrize(
    "table",
    [
        *("[1.0]", "[0, 0, 0, 0, 0, 2, 0, 0, 1.0]", "[[0] * 8]", "[0, 0, 0, 0, 0, -4, 4, 0]"),
        "[0, 0, 0, 0, 0, 1, 0, 0, 1.0, 1.0]",
    ],
)
def test_a_table_that_compiled_loops_would_read_beyond_its_end_is_refused(tmp_path, table):
    path = tmp_path / "mine.py"
    path.write_text(f"class batch_law:\n    def seconds(self, batch): return 1.0\n    def table(self): return {table}\n")
    with pytest.raises(InputError, match=r"expected a law whose table\(\) is made by cost.batch.layout"):
        batch_law_of(str(path))


def test_what_is_no_batch_time_law_is_refused(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("class batch_law:\n    def table(self): return [0.0] * 8\n")
    with pytest.raises(InputError, match="expected a class with seconds, table"):
        batch_law_of(str(path))
