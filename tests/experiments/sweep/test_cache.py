"""Finished runs on disk."""

from __future__ import annotations

import pytest

from evenstep.errors import InputError
from evenstep.experiments.sweep.cache import Cache

KEY = "ab" + "0" * 62
RESULT = {"digest": "d", "summary": {"idle_share": 0.1 + 0.2, "restarts": 0, "x": None}, "seconds": 1.0}


def stored(folder):
    cache = Cache(folder)
    cache.put(KEY, RESULT)
    (path,) = folder.rglob("*.json")
    return path


def test_what_was_put_is_read_by_another_to_the_last_bit(tmp_path):
    stored(tmp_path)
    assert Cache(tmp_path).get(KEY) == RESULT
    assert Cache(tmp_path).get("cd" + KEY[2:]) is None


def test_without_a_folder_it_remembers_only():
    cache = Cache(None)
    cache.put(KEY, RESULT)
    assert cache.get(KEY) == RESULT


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-9], lambda b: b"", lambda b: b.replace(b"0.3", b"0.4"), lambda b: b"\xff" + b]
)
def test_a_damaged_file_is_as_if_it_were_not_there_and_is_counted(tmp_path, damage):
    path = stored(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    cache = Cache(tmp_path)
    assert cache.get(KEY) is None and cache.get(KEY) is None
    assert cache.damaged == 1
    cache.put(KEY, RESULT)
    assert Cache(tmp_path).get(KEY) == RESULT


def test_a_file_under_another_key_is_damaged(tmp_path):
    path = stored(tmp_path)
    other = "ab" + "1" * 62
    path.rename(path.with_name(f"{other}.json"))
    cache = Cache(tmp_path)
    assert cache.get(other) is None
    assert cache.damaged == 1


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(InputError, match="a file that can be written"):
        Cache(tmp_path / "cache").put(KEY, RESULT)


def test_a_result_that_cannot_be_read_is_one_clear_error(tmp_path):
    Cache(tmp_path).put(KEY, RESULT)
    (path,) = tmp_path.rglob("*.json")
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="expected a file that can be read"):
        Cache(tmp_path).get(KEY)
