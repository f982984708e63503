"""Fitted batch-time laws: the true one is found again, poor fits and bad logs are refused."""

import csv

import numpy as np
import pytest

from evenstep import names, streams
from evenstep.cost.batch import Batch
from evenstep.cost.fitting import LAWS, checked, fit_laws, read_log
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
        read_log(write(path, {name: column[:9] for name, column in made.items()}))
    with pytest.raises(InputError, match="iterations that differ"):
        read_log(write(path, {**made, "seconds": np.ones(30)}))
