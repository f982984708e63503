"""What every trace format keeps; a new format is found by itself and needs a sample of its own name."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workload.sampled import FOLDER, SAMPLES

from evenstep import names
from evenstep.errors import InputError
from evenstep.request import COLUMNS
from evenstep.workload import statistics
from evenstep.workload.checks import check_trace
from evenstep.workload.readers import parquet
from evenstep.workload.reading import read_trace

FORMATS = [name for name in names.members("workload") if name in SAMPLES.values()]  # `test_reading` misses the others


def sample(name: str) -> Path:
    return next(FOLDER / file for file, of in SAMPLES.items() if of == name)


@pytest.mark.parametrize("name", FORMATS)
def test_a_sample_reads_as_a_whole_trace(name):
    trace = check_trace(read_trace(sample(name)), name)
    if name != "parquet":
        assert trace.format == name
    assert trace.name == sample(name).name or name == "parquet"


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_file_is_the_same_trace(name):
    first, second = read_trace(sample(name), seed=3), read_trace(sample(name), seed=3)
    assert statistics.digest(first) == statistics.digest(second)
    assert first.notes == second.notes


@pytest.mark.parametrize("name", FORMATS)
def test_nobody_recognises_the_samples_of_others(name):
    module = names.find("workload", name)
    for other in FORMATS:
        data = sample(other).read_bytes()
        head = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        assert module.recognises(head, "x") == (other == name), other


@pytest.mark.parametrize("name", FORMATS)
def test_a_trace_survives_being_written_as_parquet(name, tmp_path):
    trace = read_trace(sample(name))
    (tmp_path / "t.parquet").write_bytes(parquet.packed(trace))
    back = read_trace(tmp_path / "t.parquet")
    assert statistics.digest(back) == statistics.digest(trace)
    assert (back.name, back.format, back.notes) == (trace.name, trace.format, trace.notes)
    assert {c for c in COLUMNS if getattr(back, c) is not None} == {c for c in COLUMNS if getattr(trace, c) is not None}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\x01\xff\xfe" * 300, b"\n", b"{}\n", b"a,b\n1,2\n", b"[1]\n", b'"x"\n', b"\xef\xbb\xbf"],
)
def test_rubbish_read_by_name_is_an_input_error(name, content, tmp_path):
    path = tmp_path / "rubbish"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_trace(path, name)


@pytest.mark.parametrize("name", FORMATS)
def test_a_directory_and_a_missing_file_are_input_errors(name, tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(InputError):
            read_trace(path, name)


@pytest.mark.parametrize("name", FORMATS)
@given(cut=st.floats(0, 1), change=st.integers(0, 255), skip=st.booleans())
@settings(max_examples=25)
def test_a_damaged_file_is_read_or_refused_and_nothing_else(name, cut, change, skip):
    """Any byte changed, and the file cut behind it: a trace that keeps its promises, or one clear error."""
    data = bytearray(sample(name).read_bytes())
    place = int(cut * (len(data) - 1))
    data[place] = change
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged"
        path.write_bytes(bytes(data if change % 2 else data[: place + 1]))
        try:
            trace = read_trace(path, name, skip_bad_rows=skip)
        except InputError as error:
            assert "\n" not in str(error)
            return
    check_trace(trace, name)
    assert np.isfinite(trace.prompt_tokens).all()
