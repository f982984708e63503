"""The files of a decision log, by name and header."""

from __future__ import annotations

import gzip

import msgspec
import pytest

from evenstep.workload.log_parts import KIND, begins_log, has_part, part_of, place_in_log


def log(path, part, form="json"):
    header = {"event": "header", "log": KIND, "part": part}
    record = msgspec.msgpack.encode(header)
    data = (
        msgspec.json.encode(header) + b"\n{}\n" if form == "json" else len(record).to_bytes(4, "little") + record + b"rest"
    )
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("form", ["json", "msgpack"])
@pytest.mark.parametrize("suffix", [".evlog", ".jsonl", ".gz"])
def test_the_header_says_whether_a_file_begins_a_log(tmp_path, form, suffix):
    first, later = tmp_path / f"a{suffix}", tmp_path / f"a.1{suffix}"
    assert begins_log(log(first, 0, form)) and not begins_log(log(later, 1, form))
    assert (place_in_log(first), place_in_log(later)) == ((first, 0), (first, 1))
    assert has_part(first, 1) and not has_part(first, 2) and part_of(first, 1) == later


def test_a_log_whose_own_name_has_a_number_is_no_part_of_another(tmp_path):
    own = log(tmp_path / "run.2.evlog", 0)
    assert place_in_log(own) == (own, 0)
    assert not has_part(tmp_path / "run.evlog", 2)


@pytest.mark.parametrize("data", [b"", b"{", b"\x05\0\0\0\xc1", b"\xff\0\0\0\x81", b'{"part": 0}\n', b"[0]\n", b"\x1f\x8bx"])
def test_another_file_begins_no_log(tmp_path, data):
    path = tmp_path / "log.1.jsonl"
    path.write_bytes(data)
    assert not begins_log(path) and not begins_log(tmp_path / "missing.evlog")
    assert place_in_log(path) == (tmp_path / "log.jsonl", 1)
