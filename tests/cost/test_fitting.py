"""Fitted batch-time laws: the true one is found again, poor fits and bad logs are refused."""

import csv
import math
import os

import numpy as np
import pytest

from evenstep import names, streams
from evenstep.cost.batch import Batch
from evenstep.cost.fitting import FEWEST, LAWS, Fit, checked, fit_laws, read_log
from evenstep.errors import InputError

TRUE = {
    "affine-kv": {"d0_s": 0.01, "d1_s": 4e-7},
    "token-budget": {"c_s": 0.02, "a_s": 1.5e-4, "b0": 96.0},
    "long-context": {
        "c_s": 0.02,
        "a_s": 1.5e-4,
        "b0": 96.0,
        "alpha_s": 2e-8,
        "gamma_s": 1e-8,
        "beta_s": 5e-8,
    },
    "regression": {
        "constant_s": 0.01,
        "token_s": 1e-4,
        "request_s": 2e-4,
        "square_s": 2e-8,
        "decode_s": 2e-7,
    },
}


def log(law, count=300, noise=0.01):
    """Batches of all kinds, timed by a law with keyed noise."""
    rows = np.arange(count, dtype=np.int64)
    drawn = {name: streams.uniform(7, name, rows) for name in ("chunk", "before", "decodes", "context", "noise")}
    chunk = np.where(rows % 3 == 0, 0, (drawn["chunk"] * 1500).astype(np.int64))
    before, decodes = (drawn["before"] * 3000).astype(np.int64), 1 + (drawn["decodes"] * 200).astype(np.int64)
    context = decodes * (100 + (drawn["context"] * 3000).astype(np.int64))
    columns = {
        "requests": decodes + (chunk > 0),
        "kv": context + decodes + (chunk > 0) * before + chunk,
        "tokens": chunk + decodes,
        "chunk_squares": chunk * chunk,
        "crossed": chunk * before,
        "decode_context": context,
    }
    built = names.build("batch", {"name": law, **TRUE[law]})
    seconds = [built.seconds(Batch(**{name: int(column[k]) for name, column in columns.items()})) for k in range(count)]
    columns["seconds"] = np.array(seconds) * (1 + noise * (drawn["noise"] - 0.5))
    return {name: np.asarray(column, np.float64) for name, column in columns.items()}


def write(path, columns):
    rows = [
        ",".join(columns),
        *(",".join(map(repr, row)) for row in np.stack(list(columns.values()), 1).tolist()),
    ]
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("law", LAWS)
def test_the_law_a_log_was_made_with_wins_and_its_numbers_come_back(law):
    fitted = fit_laws(log(law))
    best = checked("log", fitted)
    assert best.law == law and best.r_squared > 0.99
    for name, value in TRUE[law].items():
        assert best.options[name] == pytest.approx(value, rel=0.15), name
    built = names.build("batch", {"name": law, **best.options})
    assert built.table().size == names.build("batch", {"name": law, **TRUE[law]}).table().size


def test_a_log_of_the_vllm_plugin_is_fitted_by_its_kv_alone(tmp_path):
    made = log("affine-kv")
    path = write(tmp_path / "steps-0.csv", {"kv_tokens": made["kv"], "running": made["kv"], "seconds": made["seconds"]})
    fitted = fit_laws(read_log(path))
    assert [fit.law for fit in fitted.fits] == ["affine-kv"]
    assert (
        set(fitted.left_out) == {"token-budget", "long-context", "regression"}
        and "tokens" in fitted.left_out["token-budget"]
    )


def test_a_log_may_quote_the_names_of_its_columns_and_have_spaces_around_them(tmp_path):
    path = tmp_path / "iterations.csv"
    for head in ('"seconds","kv"', "seconds, kv"):
        path.write_text(f"{head}\n" + "".join(f"{0.01 * k},{k}\n" for k in range(1, 31)))
        assert read_log(path)["kv"].tolist() == list(range(1, 31))


def test_a_log_with_a_quote_that_nothing_closes_is_refused(tmp_path):
    usual = csv.field_size_limit(1000)
    try:
        for head in ('seconds,kv\n0.1,"2\n', '"seconds,kv\n0.1,2\n'):
            (tmp_path / "log.csv").write_text(head + "0.3,4\n" * 200)
            with pytest.raises(InputError, match="expected a readable CSV file"):
                read_log(tmp_path / "log.csv")
    finally:
        csv.field_size_limit(usual)


def fit_of(law, **columns):
    fitted = fit_laws({name: np.array(column, np.float64) for name, column in columns.items()})
    return next(fit for fit in fitted.fits if fit.law == law)


def test_a_line_through_four_points_by_hand():
    """Means 1.5 and 3; slope 8 / 5; squares of the residuals .16 + .04 + .64 + .36 = 1.2 of 14; two parameters."""
    fit = fit_of("affine-kv", kv=[0, 1, 2, 3], seconds=[1, 2, 3, 6])
    assert fit.options == pytest.approx({"d0_s": 0.6, "d1_s": 1.6})
    assert fit.seconds == pytest.approx([0.6, 2.2, 3.8, 5.4])
    assert fit.residuals == pytest.approx([0.4, -0.2, -0.8, 0.6])
    assert fit.r_squared == pytest.approx(1 - 1.2 / 14)
    assert fit.score == pytest.approx(4 * math.log(1.2 / 4) + 2 * math.log(4))


def test_an_exact_fit_counts_a_trillionth_of_the_variation_as_its_residual():
    fit = fit_of("affine-kv", kv=[0, 1, 2, 3], seconds=[1, 3, 5, 7])
    assert fit.r_squared == pytest.approx(1, abs=1e-12)
    assert fit.score == pytest.approx(4 * math.log(1e-12 * 20 / 4) + 2 * math.log(4))


def test_a_law_that_is_flat_up_to_b0_has_one_parameter_more():
    fit = fit_of("token-budget", tokens=[0, 10, 20, 30, 40], seconds=[1, 1, 1, 2, 3])
    assert fit.options == pytest.approx({"c_s": 1.0, "a_s": 0.1, "b0": 20.0})
    assert fit.score == pytest.approx(5 * math.log(1e-12 * 3.2 / 5) + 3 * math.log(5))
    assert fit.text == "token-budget:c_s=1,a_s=0.1,b0=20"


@pytest.mark.parametrize("b0", [0, 998, 7934])
def test_b0_is_searched_between_the_neighbours_of_the_best_start(b0):
    """The starts are 0, 126, ..., 7,938. The second search has 63 steps: of 2 from 0, of 4 from 882, of 2 from 7,812."""
    tokens = np.linspace(0, 126 * 63 / 0.95, 400)
    fit = fit_of("token-budget", tokens=tokens, seconds=0.5 + 0.001 * np.maximum(0, tokens - b0))
    assert fit.options == pytest.approx({"c_s": 0.5, "a_s": 0.001, "b0": b0})


def test_of_equal_fits_the_first_start_wins_which_is_0_tokens():
    fit = fit_of("token-budget", tokens=[5, 6, 8, 11], seconds=[0.5, 0.6, 0.8, 1.1])
    assert fit.options == pytest.approx({"c_s": 0.0, "a_s": 0.1, "b0": 0.0}, abs=1e-9)


def test_a_law_can_be_asked_for_by_name():
    fitted = fit_laws({"kv": np.arange(4.0), "seconds": np.array([1.0, 2.0, 3.0, 6.0])})
    assert checked("log", fitted, "affine-kv") is fitted.fits[0]
    with pytest.raises(InputError, match=r"fit of regression is 'missing'.*the log has no tokens, requests"):
        checked("log", fitted, "regression")
    with pytest.raises(InputError, match="--law: law is 'linear'"):
        checked("log", fitted, "linear")


def test_a_fit_that_explains_the_least_share_exactly_is_usable():
    none = np.zeros(0)
    assert [Fit("unit", {}, share, 0.0, none, none).is_poor for share in (0.8, 0.79, math.nan)] == [False, True, True]


def test_pages_json_and_pipes_are_no_logs(tmp_path):
    path = tmp_path / "log.csv"
    for text, kind in (("<html>\n", "a page"), ('{"kv": 1}\n', "JSON"), ("[1]\n", "JSON"), ("", "seconds, and kv")):
        path.write_text(text)
        with pytest.raises(InputError, match=kind):
            read_log(path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="a pipe"):
        read_log(tmp_path / "pipe")


def test_a_poor_fit_is_refused():
    made = log("affine-kv")
    made["seconds"] = streams.uniform(3, "seconds", np.arange(300, dtype=np.int64))
    with pytest.raises(InputError, match=r"R\^2 of the best fit is '0\.\d+.*at least 0\.8"):
        checked("log", fit_laws(made))


def test_bad_logs_are_refused_by_row_and_column(tmp_path):
    made = log("affine-kv", count=30)
    path = write(tmp_path / "log.csv", made)
    path.write_text(path.read_text().replace("\n", "\nx,1,1,1,1,1,1\n", 1))
    with pytest.raises(InputError, match=r"line 2: requests is 'x'"):
        read_log(path)
    with pytest.raises(InputError, match="seconds, and kv or tokens"):
        read_log(write(path, {"kv": made["kv"]}))
    with pytest.raises(InputError, match="seconds, and kv or tokens"):
        read_log(write(path, {name: made[name] for name in ("seconds", "requests", "crossed")}))
    with pytest.raises(InputError, match="at least 20 iterations"):
        read_log(write(path, {name: column[: FEWEST - 1] for name, column in made.items()}))
    assert read_log(write(path, {name: column[:FEWEST] for name, column in made.items()}))["kv"].size == FEWEST
    with pytest.raises(InputError, match="iterations that differ"):
        read_log(write(path, {**made, "seconds": np.ones(30)}))
    path = write(path, made)
    path.write_text(path.read_text().replace("crossed", "kv", 1))
    with pytest.raises(InputError, match="expected one column 'kv'. Rename or delete the others."):
        read_log(path)
