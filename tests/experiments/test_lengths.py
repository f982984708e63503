"""Requests drawn from laws or from the rows of a trace."""

from types import SimpleNamespace

import numpy as np
import pytest

from evenstep.errors import InputError
from evenstep.experiments.lengths import Rows, alike, lengths_of


def test_rows_are_drawn_together_and_the_same_again():
    rows = Rows(np.array([1, 2, 3]), np.array([10, 20, 30]), "three.csv")
    found, again = rows.draw(500, 7, 0), rows.draw(500, 7, 0)
    assert (found.output_tokens == 10 * found.prompt_tokens).all()
    assert set(found.prompt_tokens.tolist()) == {1, 2, 3}
    assert (found.prompt_tokens == again.prompt_tokens).all()
    assert (found.prompt_tokens != rows.draw(500, 7, 1).prompt_tokens).any()
    assert (found.prompt_tokens[:100] == rows.draw(100, 7, 0).prompt_tokens).all()


def test_requests_that_are_all_alike():
    drawn = alike(3, 5).draw(4, 0, 0)
    assert (drawn.prompt_tokens.tolist(), drawn.output_tokens.tolist()) == ([3] * 4, [5] * 4)


def test_a_source_of_one_row_is_described_and_its_requests_are_named_after_it(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,100,50\n")
    lengths, own, said = lengths_of("evenstep plan", SimpleNamespace(source=str(path), limit=None, format_name=None, seed=0))
    assert (own, said) == (None, "the only row of one.csv, drawn again and again, Poisson arrivals")
    assert lengths.draw(3, 0, 0).name == "drawn from one.csv"


def test_errors_name_the_command():
    asked = SimpleNamespace(source="", limit=None, format_name=None, seed=0)
    with pytest.raises(InputError, match="evenstep plan: FILE is 'missing'"):
        lengths_of("evenstep plan", asked)
