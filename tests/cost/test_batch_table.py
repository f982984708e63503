"""The batch-time law of a measured file."""

import pytest

from evenstep.cost.batch import Batch
from evenstep.cost.batch_seconds import seconds_by_table
from evenstep.cost.batch_table import BatchTable
from evenstep.errors import InputError


def write(tmp_path, text):
    path = tmp_path / "log.csv"
    path.write_text(text)
    return str(path)


def test_lines_go_through_the_means_and_never_fall(tmp_path):
    law = BatchTable(write(tmp_path, "step,tokens,seconds\n1,10,1\n2,10,3\n3,20,4\n4,30,3\n5,40,8\n"))
    at = {1: 2.0, 10: 2.0, 15: 3.0, 20: 4.0, 25: 4.0, 30: 4.0, 40: 8.0, 50: 10.0}
    for tokens, seconds in at.items():
        assert law.seconds(Batch(tokens=tokens)) == pytest.approx(seconds), tokens
        assert seconds_by_table(law.table(), Batch(tokens=tokens)) == pytest.approx(seconds)


def test_beyond_the_last_point_seconds_grow_though_the_largest_means_are_level(tmp_path):
    """Noise often makes them so, and then a batch of any size took no longer."""
    law = BatchTable(write(tmp_path, "tokens,seconds\n1000,1\n2000,2\n3999,5\n4000,4\n"))
    assert law.seconds(Batch(tokens=4000)) == 5.0
    assert law.seconds(Batch(tokens=8000)) == pytest.approx(5 + 4000 * 3 / 2000)


def test_bad_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="line 2: seconds is 'long'"):
        BatchTable(write(tmp_path, "tokens,seconds\n1,long\n"))
    with pytest.raises(InputError, match="two or more different sizes"):
        BatchTable(write(tmp_path, "tokens,seconds\n5,1\n5,2\n"))
    with pytest.raises(InputError, match="nowhere"):
        BatchTable(str(tmp_path / "nowhere.csv"))
