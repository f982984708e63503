"""Tables of a measured profile: what is read, how holes are filled, and what is refused with row and column."""

import gzip

import numpy as np
import pytest

from evenstep.cost.profile_tables import (
    Facts,
    attention_of,
    facts_of,
    filled,
    lines_of,
    mixture_of,
    read_tables,
    rows_of,
    text_of,
)
from evenstep.errors import InputError


def test_rows_name_line_and_column_of_a_bad_cell(tmp_path):
    path = tmp_path / "dense.csv"
    path.write_text("layer,tokens,time_us\nmlp,1,2\nmlp,2,fast\n")
    with pytest.raises(InputError, match=r"line 3: time_us is 'fast'"):
        rows_of(path, ("tokens", "time_us"), "layer")
    path.write_text("layer,tokens\nmlp,1\n")
    with pytest.raises(InputError, match="with time_us"):
        rows_of(path, ("tokens", "time_us"))
    path.write_text("layer,tokens,time_us\n")
    with pytest.raises(InputError, match="rows is 0"):
        lines_of(path, "tokens")


def test_a_bad_cell_below_blank_lines_is_named_by_its_own_line(tmp_path):
    path = tmp_path / "iterations.csv"
    path.write_text("tokens,seconds\n1,0.1\n\n\n2,x\n")
    with pytest.raises(InputError, match=r"line 5: seconds is 'x'"):
        rows_of(path, ("tokens", "seconds"))


def test_names_of_columns_may_have_spaces_around_them(tmp_path):
    path = tmp_path / "iterations.csv"
    path.write_text("tokens , seconds\n1, 0.1\n")
    assert rows_of(path, ("tokens", "seconds"))["seconds"].tolist() == [0.1]


def test_collectives_without_the_width_of_a_layer_are_refused(tmp_path):
    """Without it every collective would take the time of the smallest volume measured."""
    for name in ("dense", "per_sequence", "attention", "collective"):
        (tmp_path / f"{name}.csv").write_text("layer,tokens,sequences,bytes,time_us\nmlp,1,1,1,1\nmlp,2,2,2,2\n")
    with pytest.raises(
        InputError, match=r"profile\.json: hidden is 0; expected an integer >= 1, as there is collective\.csv"
    ):
        read_tables(str(tmp_path))


def test_lines_ascend_and_have_two_points(tmp_path):
    path = tmp_path / "dense.csv"
    path.write_text("layer,tokens,time_us\nmlp,8,3\nmlp,1,2\n")
    assert lines_of(path, "tokens")["mlp"] == pytest.approx(np.array([[1, 8], [2e-6, 3e-6]]))
    path.write_text("layer,tokens,time_us\nmlp,8,3\n")
    with pytest.raises(InputError, match="two or more"):
        lines_of(path, "tokens")


def test_a_file_may_be_gzipped_and_must_be_text(tmp_path):
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(b"x"))
    assert text_of(packed) == "x"
    whole = gzip.compress(b"x" * 100)
    for damaged in (b"no gzip", whole[:-9], whole[:10] + b"\xff\xff\xff" + whole[13:]):
        packed.write_bytes(damaged)
        with pytest.raises(InputError, match=r"a\.csv\.gz"):
            text_of(packed)


def test_long_contexts_that_did_not_fit_go_on_as_a_line(tmp_path):
    path = tmp_path / "attention.csv"
    rows = ["0,0,1,16,1", "0,0,1,32,2", "0,0,1,64,4", "0,0,8,16,8", "0,0,8,32,16"]
    path.write_text("prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n" + "\n".join(rows))
    assert attention_of(path).seconds[0, 0, 1] == pytest.approx([8e-6, 16e-6, 32e-6])


def test_batches_of_one_kind_may_name_any_context_for_the_other_kind(tmp_path):
    path = tmp_path / "attention.csv"
    rows = ["0,512,1,100,1", "0,512,2,100,2", "10,0,0,200,5", "10,512,0,200,9", "10,0,1,100,6", "10,512,2,200,12"]
    path.write_text("prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n" + "\n".join(rows))
    seconds = attention_of(path).seconds
    assert seconds[0, :, 1:, 0] == pytest.approx(np.array([[1e-6, 2e-6]] * 2))
    assert seconds[1, :, 0] == pytest.approx(np.array([[5e-6] * 2, [9e-6] * 2]))


def test_a_full_chunk_with_decodes_takes_longer_by_as_much_as_it_does_alone():
    axes = tuple(np.array(a, float) for a in ((0, 4, 8), (0, 2), (0, 1), (0, 5)))
    grid = np.full((3, 2, 2, 2), np.nan)
    grid[0, 0, 1, 1], grid[1, :, 0, 0], grid[2, :, 0, 0], grid[1, :, 1, 1] = 1, (3, 4), (7, 9), (5, 6)
    found = filled("x", grid, axes)
    assert np.array_equal(found[2, :, 1, 1], [5 + 4, 6 + 5])
    assert found[0, 0, 0, 0] == 0 and found[0, 1, 1, 1] == 1
    with pytest.raises(InputError, match="a measured time there or at a neighbouring point"):
        filled("x", np.full((3, 2, 2, 2), np.nan), axes)


def test_experts_that_few_tokens_cannot_reach_cost_what_more_tokens_pay(tmp_path):
    path = tmp_path / "moe.csv"
    path.write_text("tokens,activated_experts,time_us\n1,2,1\n4,2,2\n4,4,3\n")
    mixture = mixture_of(path)
    assert mixture.table * 1e6 == pytest.approx(np.array([[1, 3], [2, 3]]))
    found = mixture.seconds(np.array([1.0, 4.0]), Facts(experts=4, experts_each=2))
    active = 4 * (1 - 0.5 ** np.array([1.0, 4.0]))
    assert found * 1e6 == pytest.approx([np.interp(active[0], [2, 4], [1, 3]), np.interp(active[1], [2, 4], [2, 3])])
    path.write_text("tokens,activated_experts,time_us\n1,2,1\n1,4,3\n4,2,2\n")
    with pytest.raises(InputError, match="hole at the largest"):
        mixture_of(path)


def test_facts_know_their_fields(tmp_path):
    assert facts_of(tmp_path) == Facts()
    (tmp_path / "profile.json").write_text('{"layers": 2, "skew": [0.1, 0.2], "source": "here"}')
    assert facts_of(tmp_path) == Facts(layers=2, skew=(0.1, 0.2))
    (tmp_path / "profile.json").write_text('{"layer": 2}')
    with pytest.raises(InputError, match="field is 'layer'"):
        facts_of(tmp_path)
    for text in ("layers: 2", "3", "[1]", '"layers"', '{"layers": "two"}', '{"skew": [1]}', '{"layers": 1.5}', "\xff"):
        (tmp_path / "profile.json").write_text(text, encoding="latin-1")
        with pytest.raises(InputError, match="a JSON object"):
            facts_of(tmp_path)
    for text, words in (
        ('{"layers": -1}', "layers is -1; expected an integer >= 0"),
        ('{"expert_ranks": 0}', "expert_ranks is 0"),
    ):
        (tmp_path / "profile.json").write_text(text)
        with pytest.raises(InputError, match=words):
            facts_of(tmp_path)


def test_a_missing_table_and_an_unknown_profile_are_named(tmp_path):
    with pytest.raises(InputError, match=r"dense\.csv"):
        read_tables(str(tmp_path))
    with pytest.raises(InputError, match="rtx4090-llama31-8b"):
        read_tables("rtx4090-llama-8b")


def _plane(axes, at):
    """Something that is straight along every axis but the last but one."""
    grid = np.ix_(*axes)
    return at(*grid) + np.zeros([axis.size for axis in axes])


@pytest.mark.parametrize("which", [0, 1])
def test_two_grids_of_different_points_are_read_as_one(which):
    """What one grid has measured between the points of the other lies on lines between these."""
    axes = tuple(np.array(a, float) for a in ((16, 24, 64, 81, 128), (0, 256, 512, 768), (1, 8), (64, 512, 768, 1024)))
    truth = _plane(axes, lambda c, p, n, d: 5 + c + p / 8 + n * d)
    grid = np.full(truth.shape, np.nan)
    for chunks, contexts, decoded in (([0, 2, 4], [0, 1, 3], [0, 1, 3]), ([1, 3], [0, 2], [1, 2])):
        place = np.ix_(chunks, contexts, [0, 1], decoded)
        grid[place] = truth[place]
    found = filled("x", grid, axes)
    between = (
        np.ix_([0, 2, 4], [0, 1, 2, 3], [0, 1], [0, 1, 2, 3])
        if which == 0
        else np.ix_([1, 3], [0, 1, 2], [0, 1], [0, 1, 2, 3])
    )
    assert found[between] == pytest.approx(truth[between])
    assert found[~np.isnan(grid)].tolist() == grid[~np.isnan(grid)].tolist()


def test_a_larger_number_of_decodes_goes_on_as_a_line():
    axes = tuple(np.array(a, float) for a in ((0, 16), (0, 256), (0, 64, 128, 256), (16, 512)))
    grid = _plane(axes, lambda c, p, n, d: 1 + c + n)
    grid[1, :, 3] = np.nan
    assert filled("x", grid, axes)[1, :, 3] == pytest.approx(1 + 16 + 256)


@pytest.mark.parametrize("name", ["rtx4090-llama31-8b", "rtxpro6000-llama31-8b", "rtxpro6000-qwen3-30b-a3b-ep2"])
def test_what_is_left_out_of_a_measured_table_is_found_again(name):
    """Of some points left out of the attention table half are found within a few percent."""
    from evenstep.cost.profile_tables import AXES, BUNDLED

    rows = rows_of(BUNDLED / name / "attention.csv.gz", (*AXES, "time_us"))
    axes = tuple(np.unique(rows[axis]) for axis in AXES)
    grid = np.full([axis.size for axis in axes], np.nan)
    grid[tuple(np.searchsorted(axis, rows[of]) for axis, of in zip(axes, AXES, strict=True))] = rows["time_us"]
    seen = np.argwhere(~np.isnan(grid))
    inside = (axes[0][seen[:, 0]] > 0) & (axes[2][seen[:, 2]] >= 16) & (abs(axes[3][seen[:, 3]] - 2200) < 2000)
    left_out = tuple(seen[inside & (np.random.default_rng(0).random(len(seen)) < 0.1)].T)
    cut = grid.copy()
    cut[left_out] = np.nan
    off = filled("x", cut, axes)[left_out] / grid[left_out] - 1
    assert np.median(abs(off)) < 0.03 and abs(np.median(off)) < 0.01


def test_the_last_of_two_equal_columns_counts_in_a_short_row_too(tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text("seconds,kv,seconds\n1,2\n")
    with pytest.raises(InputError, match="line 2: seconds is 'empty'"):
        rows_of(path, ("seconds", "kv"))
