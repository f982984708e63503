from __future__ import annotations

import io
import tarfile

import numpy as np
import pytest

from evenstep.errors import InputError
from evenstep.workload.readers.servegen_clients import load


def tar(**files: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as out:
        for name, text in files.items():
            member = tarfile.TarInfo(f"data/x/{name.replace('__', '.').replace('_', '-')}")
            member.size = len(text.encode())
            out.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


def test_clients_have_windows_and_laws(samples):
    first, second = load(samples / "servegen.tar.gz")
    assert (first.number, first.rate.tolist(), first.kind) == (0, [0.5, 1.5, 0.0], ("Gamma", "Gamma", ""))
    law = first.laws_at(700.0)["output_tokens"]
    assert law.quantile(np.array([0.0, 0.0999, 0.1001, 0.999])).tolist() == [3, 3, 30, 30]
    assert set(second.laws_at(0.0)) == {"text_tokens", "image_tokens", "image_count", "output_tokens"}


def test_a_window_without_data_borrows_the_window_before(samples):
    first = load(samples / "servegen.tar.gz")[0]
    assert first.laws_at(5000.0) == first.laws_at(600.0)


def test_rates_may_stand_alone(samples):
    assert [c.laws_at(0.0) for c in load(samples / "servegen_rates.tar.gz")] == [{}, {}]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"chunk_0_trace__csv": "0,1,1,Gamma,1\n"}, r"chunk-0-trace\.csv:1: row is '5 columns'"),
        ({"chunk_0_trace__csv": "0,fast,1,Gamma,1,1\n"}, r":1: rate is 'fast'"),
        ({"chunk_0_trace__csv": "0,-1,1,Gamma,1,1\n"}, r":1: rate is '-1'"),
        ({"chunk_0_trace__csv": "0,1,1,Normal,1,1\n"}, r":1: distribution is 'Normal'"),
        ({"chunk_0_trace__csv": "0,1,1,Gamma,0,1\n"}, r":1: parameter 1 is 0"),
        ({"chunk_0_trace__csv": "0,1,1,,0,0\n", "chunk_0_dataset__json": "{"}, "content is 'damaged'"),
        (
            {
                "chunk_0_trace__csv": "0,1,1,,0,0\n",
                "chunk_0_dataset__json": '{"0": {"output_tokens": "{5: -1}"}}',
            },
            "shares",
        ),
        (
            {"chunk_0_trace__csv": "0,1,1,,0,0\n", "chunk_0_dataset__json": '{"0": {"output_tokens": "{5: 1e999}"}}'},
            "shares",
        ),
        (
            {"chunk_0_trace__csv": "0,1,1,,0,0\n", "chunk_0_dataset__json": '{"0": {"n_tokens": "{1%s: 1}"}}' % ("0" * 19)},
            "n_tok",
        ),
        ({"other": "x"}, "clients is 0"),
        ({"chunk_0_trace__csv": "0,0,1,,0,0\n"}, "rates is 0; expected a client that sends requests"),
        ({"chunk_0_trace__csv": ""}, "rates is 0"),
    ],
)
def test_a_damaged_tar_is_named(write, files, message):
    with pytest.raises(InputError, match=message):
        load(write("x.tar.gz", tar(**files)))


def test_what_is_no_tar_is_an_error(write):
    with pytest.raises(InputError, match="damaged"):
        load(write("x.tar", b"not a tar" * 200))
