from __future__ import annotations

import re

import numpy as np
import pytest
from tests.workload.sampled import SAMPLES

from evenstep import names, read_trace
from evenstep.errors import InputError
from evenstep.workload import reading


@pytest.mark.parametrize("name", SAMPLES)
def test_each_file_is_recognised_by_its_own_format_alone(samples, name):
    assert reading.detect(samples / name) == SAMPLES[name]


@pytest.mark.parametrize("name", [n for n in SAMPLES if not n.endswith(".gz")])
def test_a_packed_file_is_the_same_trace(samples, write, name):
    packed = read_trace(write(name + ".gz", (samples / name).read_bytes()))
    plain = read_trace(samples / name)
    assert packed.prompt_tokens.tolist() == plain.prompt_tokens.tolist()
    assert packed.notes == plain.notes


def test_every_format_has_a_sample():
    missing = sorted(set(names.members("workload")) - set(SAMPLES.values()))
    assert not missing, f"tests/workload/samples has no file whose name begins with {missing}"
    assert "" not in SAMPLES.values(), f"files of no format: {[name for name, of in SAMPLES.items() if not of]}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "file is 'empty'"),
        (b"\x00\x01\x02\x03" * 100, "expected one of agentic"),
        (b"\xff\xfe\xfd", "expected one of agentic"),
        (b"hello\nworld\n", "format is 'hello'; expected one of agentic"),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n", "rows is 0"),
        (b'{"some": "object"}\n', "expected one of agentic"),
    ],
)
def test_a_file_of_no_format_is_one_error(write, content, message):
    with pytest.raises(InputError, match=message):
        read_trace(write("x.bin", content))


def test_a_file_of_two_formats_asks_for_its_name(write, monkeypatch):
    from evenstep.workload.readers import vidur

    monkeypatch.setattr(vidur, "recognises", lambda head, name: True)
    path = write("x.csv", "prompt,output\n1,2\n")
    with pytest.raises(InputError, match="format is 'lengths and vidur'; expected one format"):
        read_trace(path)
    assert len(read_trace(path, "lengths")) == 1


def test_a_broken_format_of_another_package_hides_no_file_of_ours(write, monkeypatch):
    from evenstep.workload.readers import vidur

    def fails(head, name):
        raise KeyError("boom")

    monkeypatch.setattr(vidur, "recognises", fails)
    monkeypatch.setattr(vidur, "__name__", "other.package")
    assert len(read_trace(write("x.csv", "prompt,output\n1,2\n"))) == 1
    with pytest.raises(
        InputError, match="x.bin: reader is .*vidur.py'; expected one that reads this file .*KeyError: 'boom'"
    ):
        read_trace(write("x.bin", b"\x00\x01"))


def test_options_stand_behind_the_format_or_in_the_call(samples):
    path = samples / "mooncake.jsonl"
    written, called = read_trace(path, "mooncake:ticks=keep"), read_trace(path, ticks="keep")
    assert written.arrival_s.tolist() == called.arrival_s.tolist() == [0, 0, 0, 3, 3, 6, 6, 6, 9, 9]
    window = read_trace(samples / "servegen.tar.gz", "servegen:start_s=0,duration_s=100")
    assert window.arrival_s[-1] < 100


@pytest.mark.parametrize(
    ("file", "format", "message"),
    [
        ("mooncake.jsonl", "mooncak", "Did you mean mooncake"),
        (
            "mooncake.jsonl",
            "mooncake:tick=keep",
            "option is 'tick'; expected a known option. Did you mean ticks",
        ),
        ("azure.csv", "azure:ticks=keep", "azure takes none"),
        ("servegen.tar.gz", "servegen:start_s=soon", "start_s is 'soon'; expected a value of type float"),
    ],
)
def test_an_unknown_format_or_option_offers_the_nearest(samples, file, format, message):
    with pytest.raises(InputError, match=message):
        read_trace(samples / file, format)


def test_a_limit_keeps_the_first_rows(samples):
    trace = read_trace(samples / "bailian.jsonl", limit=4)
    assert len(trace) == 4
    assert trace.prefix_blocks.offsets.size == 5
    assert len(read_trace(samples / "agentic.jsonl", limit=2)) == 2
    with pytest.raises(InputError, match="limit is 0"):
        read_trace(samples / "azure.csv", limit=0)


def test_blocks_can_be_left_out_of_any_format(samples):
    for name in ("mooncake.jsonl", "agentic.jsonl", "bailian.jsonl", "parquet.parquet", "azure.csv"):
        assert read_trace(samples / name, prefix_blocks=False).prefix_blocks is None


def test_the_bundled_sample_is_read_by_its_name():
    trace = read_trace("sample:azure-conv")
    assert len(trace) == 3000
    with pytest.raises(InputError, match="Did you mean azure-conv"):
        read_trace("sample:azure-con")


def test_the_bundled_sample_comes_with_its_attribution():
    text = (reading.file_of("sample:azure-conv").parent / "ATTRIBUTION.md").read_text()
    assert "CC BY 4.0" in text and "Azure Public Dataset" in text and "Splitwise" in text


def test_a_format_of_ones_own_is_a_file(write, tmp_path):
    reader = write(
        "mine.py",
        "import numpy as np\nfrom evenstep.request import Trace\n"
        "def recognises(head, name):\n    return False\n"
        "def read(path, *, scale: int = 1):\n"
        "    rows = np.array([int(line) for line in path.read_text().split()])\n"
        "    return Trace(rows * scale, rows, name=path.name, format='mine')\n",
    )
    data = write("x.txt", "3 4")
    assert read_trace(data, str(reader), scale=2).prompt_tokens.tolist() == [6, 8]
    with pytest.raises(InputError, match="prompt_tokens is -3"):
        read_trace(write("y.txt", "-3"), str(reader))


@pytest.mark.parametrize(
    ("reader", "said"),
    [
        ("x = 1\n", "mine.py: read is 'missing'; expected a function read(path) that returns a Trace."),
        ("def read(path):\n    return [1]\n", "one that reads this file to a Trace. TypeError: It returned list."),
        ("def read(path):\n    return int(path.read_text())\n", "to a Trace. ValueError: invalid literal for int()"),
        ("from __future__ import annotations\ndef read(path, *, n: Nothing):\n    pass\n", "NameError: name 'Nothing'"),
    ],
)
def test_a_fault_of_ones_own_reader_is_told_as_such(write, monkeypatch, reader, said):
    path = write("mine.py", reader)
    monkeypatch.chdir(path.parent)
    with pytest.raises(InputError, match=re.escape(said)):
        read_trace(write("x.txt", "three"), "mine.py")


def test_skipping_bad_rows_is_said_in_the_notes(write):
    path = write("x.csv", "prompt,output\n1,2\nx,2\n3,4\n")
    assert read_trace(path, skip_bad_rows=True).notes[0].startswith("1 bad row was skipped")
    assert np.array_equal(read_trace(path, skip_bad_rows=True).prompt_tokens, [1, 3])


@pytest.mark.parametrize("given", [5, None, [1, 2]])
def test_an_object_that_is_no_path_is_refused(given):
    with pytest.raises(InputError, match=f"path is '{type(given).__name__}'; expected a path, or sample:NAME"):
        read_trace(given)


def test_a_format_that_is_no_text_is_refused(samples):
    with pytest.raises(InputError, match="read_trace: format is 3; expected the name of a format, or None"):
        read_trace(samples / "azure.csv", 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("sample", ["azure.csv", "azure_2024.csv", "lengths.csv", "vidur.csv"])
def test_no_row_beyond_the_limit_is_read(samples, tmp_path, sample):
    """Rows of these formats are in order of time, or keep their order: a trace of millions of rows need not be read."""
    whole = read_trace(samples / sample)
    path = tmp_path / sample
    path.write_bytes(b"".join((samples / sample).read_bytes().splitlines(keepends=True)[:6]) + b"no row\n")
    few = read_trace(path, limit=4)
    for name in ("arrival_s", "prompt_tokens", "output_tokens"):
        assert np.array_equal(few.column(name), whole.head(4).column(name))


def test_a_limit_may_be_a_number_of_numpy(samples):
    """One more than the largest int32, for the header, was a ValueError of islice."""
    assert len(read_trace(samples / "vidur.csv", limit=np.int32(2**31 - 1))) > 4  # type: ignore[arg-type]


def test_rows_are_counted_by_rows_where_cells_have_several_lines(tmp_path):
    path = tmp_path / "quoted.csv"
    path.write_text('note,prompt_tokens,output_tokens\n"two\nlines",1,2\n"and\nmore",3,4\n')
    assert read_trace(path, limit=2).prompt_tokens.tolist() == [1, 3]


def test_rows_that_are_left_out_do_not_count_towards_the_limit(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("prompt_tokens,output_tokens\n?,2\n3,4\n5,6\n")
    assert read_trace(path, limit=2, skip_bad_rows=True).prompt_tokens.tolist() == [3, 5]
