"""The batch-time law out of measured tables: what enters how often, and how batches are mapped onto the tables."""

import numpy as np
import pytest
from hypothesis import given
from tests.oracles.engine import batch_of
from tests.strategies import batches, examples

from evenstep import names
from evenstep.cost.batch import FEATURES, Batch
from evenstep.cost.batch_seconds import seconds_by_table
from evenstep.cost.profile import Profile, captured, padded
from evenstep.cost.profile_tables import bundled
from evenstep.errors import InputError

DENSE = "layer,tokens,time_us\nembedding,1,5\nembedding,100,5\nlayernorm,1,1\nlayernorm,100,1\nmlp,1,10\nmlp,100,109\n"
HEADS = "layer,sequences,time_us\nlm_head,1,7\nlm_head,9,15\n"


def folder(tmp_path, *, facts='{"layers": 4}', attention=None, **files):
    """A folder of small tables: attention of a chunk c behind k is c * (k + c / 2) / 1000, of a decode context / 100."""
    rows = ["prefill_chunk,kv_prefill,n_decode,kv_decode,time_us"]
    for chunk in (0, 10, 100):
        for before in (0, 1000) if chunk else (0,):
            for decodes in (0, 1, 2):
                for context in (100, 300) if decodes else (0,):
                    time = chunk * (before + chunk / 2) / 1000 + decodes * context / 100
                    if chunk + decodes:
                        rows.append(f"{chunk},{before},{decodes},{context},{time}")
    said = {"dense.csv": DENSE, "per_sequence.csv": HEADS, "attention.csv": "\n".join(attention or rows)}
    for name, text in {**said, "profile.json": facts, **files}.items():
        (tmp_path / name).write_text(text)
    return str(tmp_path)


def test_each_layer_counts_as_often_as_the_model_runs_it(tmp_path):
    law = Profile(folder(tmp_path))
    batch = batch_of(np.array([100, 300]), np.array([1, 1]), np.array([True, True]))
    layers = 4 * (2 * 1 + 11 + 400 / 100)
    assert law.seconds(batch) == pytest.approx(1e-6 * (5 + layers + 8))


def test_below_the_first_measured_point_a_batch_takes_the_time_of_that_point(tmp_path):
    dense = "layer,tokens,time_us\nmlp,16,100\nmlp,32,1000\n"
    law = Profile(folder(tmp_path, **{"dense.csv": dense, "per_sequence.csv": HEADS.replace("head,1", "head,4")}))
    decode = batch_of(np.array([100]), np.array([1]), np.array([True]))
    assert law.seconds(decode) == pytest.approx(1e-6 * (4 * (100 + 100 / 100) + 7))


def test_beyond_the_last_measured_point_a_batch_never_takes_less_though_noise_let_the_last_line_fall(tmp_path):
    dense = "layer,tokens,time_us\nmlp,1,100\nmlp,1024,120\nmlp,2048,100\nrope,1,5\nrope,512,3\n"
    law = Profile(folder(tmp_path, **{"dense.csv": dense, "per_sequence.csv": HEADS.replace("9,15", "9,2")}))
    measured, more = (law.seconds(Batch(tokens=tokens, requests=requests)) for tokens, requests in ((2048, 9), (16384, 900)))
    assert more == measured == pytest.approx(1e-6 * (4 * (100 + 3) + 2))


def test_beyond_the_last_point_padding_leaves_no_line_that_falls(tmp_path):
    law = Profile(
        folder(
            tmp_path,
            facts='{"layers": 1, "graph_tokens": 500}',
            **{"dense.csv": "layer,tokens,time_us\nmlp,1,1\nmlp,240,6\nmlp,500,5\n"},
        )
    )
    measured, *more = (law.seconds(Batch(tokens=tokens)) for tokens in (501, 600, 5_000, 50_000))
    assert more == [measured] * 3


@pytest.mark.parametrize("name", bundled())
def test_beyond_the_last_measured_tokens_time_grows_as_within_them(name):
    """The noise of the last two points, 16 tokens apart, went on: 4,096 tokens took 16 % longer than 2,048."""
    law = Profile(name)
    half, last, twice, four = (law.seconds(Batch(tokens=tokens)) for tokens in (1024, 2048, 4096, 8192))
    assert twice - last == pytest.approx(2 * (last - half), rel=0.1)
    assert four - twice == pytest.approx(2 * (twice - last), rel=1e-6)


def test_ranks_below_the_first_measured_point_take_the_time_of_that_point(tmp_path):
    facts = '{"layers": 1, "experts": 4, "experts_each": 2, "expert_ranks": 2, "hidden": 8}'
    tables = {"moe.csv": "tokens,activated_experts,time_us\n16,1,7\n16,2,7\n32,1,70\n32,2,70\n", "per_sequence.csv": HEADS}
    tables |= {
        "collective.csv": "bytes,time_us\n256,1\n512,90\n",
        "dense.csv": "layer,tokens,time_us\nmlp,16,10\nmlp,32,99\n",
    }
    ranks = Profile(folder(tmp_path, facts=facts, **tables)).in_lockstep(2)
    empty, _ = ranks.seconds(np.zeros((2, FEATURES)), 0.0, np.zeros(2))
    assert empty == pytest.approx(1e-6 * (10 + 7 + 2 * 1 + 6))


def test_several_chunks_take_what_one_of_as_many_pairs_takes(tmp_path):
    law = Profile(folder(tmp_path))
    chunks = batch_of(np.array([300, 500]), np.array([50, 50]), np.array([False, False]))
    pairs = 50 * (300 + 25) + 50 * (500 + 25)
    assert law.seconds(chunks) == pytest.approx(1e-6 * (5 + 4 * (2 + 109 + pairs / 1000) + 8))


def test_a_longest_decode_costs_its_share(tmp_path):
    batch = batch_of(np.array([100, 300]), np.array([1, 1]), np.array([True, True]))
    plain = Profile(folder(tmp_path)).seconds(batch)
    skewed = Profile(folder(tmp_path, facts='{"layers": 4, "skew": [0.5, 0]}')).seconds(batch)
    assert skewed - plain == pytest.approx(1e-6 * 4 * 0.5 * (600 - 400) / 100)


@pytest.mark.parametrize("name", bundled())
def test_beyond_the_measured_contexts_a_mixed_batch_takes_longer_than_its_chunk_or_its_decodes_alone(name):
    law = Profile(name)
    for before, context, decodes in ((16_000, 16_000, 4), (30_000, 12_000, 16), (60_000, 60_000, 4), (100_000, 4_000, 40)):
        held, ran = np.array([before] + [context] * decodes), np.array([512] + [1] * decodes)
        is_decode = ran == 1
        chunk, decoding = (law.seconds(batch_of(held[own], ran[own], is_decode[own])) for own in (~is_decode, is_decode))
        together = law.seconds(batch_of(held, ran, is_decode))
        assert max(chunk, decoding) < together < 2 * (chunk + decoding)


def test_options_stand_above_what_the_folder_says(tmp_path):
    path = folder(tmp_path, facts='{"layers": 4, "skew": [0.5, 0], "graph_tokens": 8}')
    three = batch_of(np.array([100, 300, 300]), np.array([1, 1, 1]), np.array([True, True, True]))
    plain = names.build("batch", {"name": "profile", "path": path, "skew": "0/0", "graph_tokens": "0"})
    assert plain.seconds(three) < Profile(path, skew=(0.0, 0.0)).seconds(three) < Profile(path).seconds(three)
    with pytest.raises(InputError, match="two shares"):
        Profile(path, skew=(0.1,))
    with pytest.raises(InputError, match="skew_mixed"):
        Profile(path, skew=(0.0, -1.0))


def test_tensor_parallel_layers_end_in_two_collectives(tmp_path):
    facts = '{"layers": 4, "hidden": 50}'
    law = Profile(folder(tmp_path, facts=facts, **{"collective.csv": "bytes,time_us\n100,3\n10100,103\n"}))
    one = batch_of(np.array([100]), np.array([1]), np.array([True]))
    (tmp_path / "faster.csv").write_text("bytes,time_us\n100,1\n10100,2\n")
    faster = Profile(str(tmp_path), collective="faster.csv")
    assert law.seconds(one) - faster.seconds(one) == pytest.approx(8 * 2e-6)
    with pytest.raises(InputError, match="slower"):
        Profile(str(tmp_path), collective="slower.csv")
    (tmp_path / "collective.csv").unlink()
    assert law.seconds(one) - Profile(folder(tmp_path)).seconds(one) == pytest.approx(8 * 3e-6)


def test_experts_are_as_many_as_the_tokens_of_all_ranks_activate(tmp_path):
    facts = '{"layers": 1, "experts": 4, "experts_each": 2, "expert_ranks": 2}'
    table = "tokens,activated_experts,time_us\n1,1,10\n1,2,20\n100,1,100\n100,2,200\n"
    law = Profile(folder(tmp_path, facts=facts, **{"moe.csv": table}))
    for wrong, words in (("", "experts is 0"), (', "experts": 4, "experts_each": 5', "from 1 to 4, the experts of a layer")):
        with pytest.raises(InputError, match=words):
            Profile(folder(tmp_path, facts=f'{{"layers": 1{wrong}}}'))
    (tmp_path / "moe.csv").unlink()
    without = Profile(folder(tmp_path, facts='{"layers": 1}'))
    one = batch_of(np.array([100]), np.array([1]), np.array([True]))
    active = 2 * (1 - 0.5**2)
    assert law.seconds(one) - without.seconds(one) == pytest.approx(1e-6 * 10 * active)


def test_a_batch_runs_as_the_next_captured_size():
    assert captured(24) == [1, 2, 4, 8, 16, 24] and captured(0) == []
    lines = padded(np.array([[1.0, 101.0], [1.0, 101.0]]), 8)
    at = [float(np.interp(n, *lines)) for n in (1, 2, 3, 4, 5, 8, 9, 50)]
    assert at == [1, 2, 4, 4, 8, 8, 9, 50]


@pytest.mark.slow
@pytest.mark.parametrize("name", bundled())
@examples(20, fast=5)
@given(batch=batches())
def test_bundled_profiles_give_every_batch_a_time(name, batch):
    law = _law(name)
    assert 1e-3 < law.seconds(batch) < 60
    assert seconds_by_table(law.table(), batch) == law.seconds(batch)
    more = Batch(**{one: getattr(batch, one) for one in batch.__slots__} | {"requests": batch.requests + 200})
    assert law.seconds(more) > law.seconds(batch)


_KEPT: dict = {}


def _law(name):
    return _KEPT.setdefault(name, names.build("batch", {"name": "profile", "path": name}))


def test_a_profile_without_its_number_of_layers_is_refused(tmp_path):
    with pytest.raises(InputError, match="layers"):
        Profile(folder(tmp_path, facts="{}"))


def test_laws_of_one_path_are_equal(tmp_path):
    path = folder(tmp_path)
    assert Profile(path) == Profile(path, layers=4) and "layers=4" in repr(Profile(path))
