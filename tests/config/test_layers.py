"""Settings in layers: a later one wins, and an error names the layer."""

from __future__ import annotations

import pytest
from tests.config.kinds import Counted, Fleet, Keyed, Larger, Paced

from evenstep.config.convert import convert
from evenstep.config.layers import Layer, settle
from evenstep.config.yaml_file import Document
from evenstep.errors import InputError


def test_later_layers_win_and_every_value_remembers_its_origin():
    settled = settle(
        Fleet,
        Layer("fleet.yaml", {"workers": 8, "name": "file"}),
        Layer("command line", {"workers": "4"}, text=True),
    )
    assert settled.value == Fleet(workers=4, name="file")
    assert settled.origin["workers"] == "command line"
    assert settled.origin["name"] == "fleet.yaml"
    assert settled.origin["pool"] == "default"


def test_a_secret_that_does_not_fit_is_not_shown():
    with pytest.raises(InputError, match=r"load.yaml: api_key is '\(hidden\)'; expected text"):
        settle(Keyed, Layer("load.yaml", {"api_key": 12345678}))


def test_a_choice_offers_the_nearest_word():
    with pytest.raises(InputError, match="command line: --pace is 'fats'; expected one of slow, fast. Did you mean fast?"):
        settle(Larger, Layer("command line", {"pace": "fats"}, text=True))


def test_a_bad_value_names_the_layer_it_came_from():
    with pytest.raises(InputError, match="command line: --workers is 'x'; expected an integer."):
        settle(Fleet, Layer("command line", {"workers": "x"}, text=True))
    with pytest.raises(InputError, match="fleet.yaml: key is 'worker'; expected a known key. Did you mean workers?"):
        settle(Fleet, Layer("fleet.yaml", {"worker": 1}))


def test_a_flag_takes_a_number_in_any_plain_decimal_form():
    found = settle(Paced, Layer("command line", {"share": ".85", "limit": "+4"}, text=True))
    assert (found.value.share, found.value.limit) == (0.85, 4)


def test_bytes_that_are_no_utf_8_are_an_error_of_their_flag():
    with pytest.raises(InputError, match=r"command line: --workers is '\\udcff'; expected an integer"):
        settle(Fleet, Layer("command line", {"workers": "\udcff"}, text=True))
    with pytest.raises(InputError, match="flag: workers is .* expected UTF-8 text"):
        convert(Document("flag", {"workers": "\udcff"}), Fleet, text=True)


def test_a_flag_of_too_many_digits_is_an_error_of_that_flag():
    with pytest.raises(InputError, match=f"^flags: --limit is {10**18}; expected an integer from -9007"):
        settle(Counted, Layer("flags", {"limit": str(10**18)}, text=True))
    with pytest.raises(InputError, match=f"^here: limit is {10**20}; expected an integer from -9007"):
        convert(Document("here", {"limit": str(10**20)}), Counted, text=True)
