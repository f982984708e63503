"""Settings of a load: URLs, objectives, what does not fit together."""

from __future__ import annotations

import pytest

from evenstep.config.layers import Layer, settle
from evenstep.errors import InputError
from evenstep.load.settings import LoadSettings, Target, checked, target_of

GIVEN = {"source": "t.csv", "url": "http://127.0.0.1:8000"}


def settled(**given):
    return settle(LoadSettings, Layer("command line", {**GIVEN, **given}))


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://127.0.0.1:8000", Target("127.0.0.1", 8000, False, "")),
        ("http://llm/", Target("llm", 80, False, "")),
        ("https://llm.example.org/v1", Target("llm.example.org", 443, True, "")),
        ("http://[::1]:9/deep/v1/", Target("::1", 9, False, "/deep")),
    ],
)
def test_a_url_gives_host_port_and_path(url, target):
    assert target_of(url) == target


def test_the_authority_leaves_the_usual_port_out():
    assert target_of("https://llm:443").authority == "llm"
    assert target_of("http://[::1]:9").authority == "[::1]:9"


@pytest.mark.parametrize(
    "url",
    [
        "llm:8000",
        "ftp://llm",
        "http://",
        "http://a:99999",
        "http://k@llm",
        "http://llm/?a",
        "http://l m",
        "http://a..b",
        "http://llm:0",
        "http://llm/#a",
        "http://llm/a\x7f",
        "http://llm/é",
    ],
)
def test_what_is_no_url_of_a_server_is_refused(url):
    with pytest.raises(InputError, match=r"--url"):
        target_of(url)


@pytest.mark.parametrize("url", ["http://user:word@llm", "user:word@llm:8000", "http://user:word@llm:x"])
def test_a_password_in_a_url_is_not_shown_when_it_is_refused(url):
    with pytest.raises(InputError, match=r"--url is '.*//\(hidden\)@llm") as caught:
        target_of(url)
    assert "word" not in str(caught.value)


def test_objectives_are_milliseconds_by_name():
    assert LoadSettings(goodput="ttft:500, tpot:50").objectives() == {"ttft": 500.0, "tpot": 50.0}
    assert LoadSettings().objectives() == {}


@pytest.mark.parametrize("text", ["ttfb:5", "ttft", "ttft:x", "ttft:-1", "ttft:1,ttft:2", "ttft:nan", "ttft:0"])
def test_objectives_that_cannot_be_meant_are_refused(text):
    with pytest.raises(InputError, match=r"--goodput"):
        LoadSettings(goodput=text).objectives()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"source": ""}, "FILE"),
        ({"url": ""}, "--url"),
        ({"url": "llm:8000"}, "--url"),
        ({"rate": 0.0}, "--rate"),
        ({"speed": float("inf")}, "--speed"),
        ({"closed": -1}, "--closed"),
        ({"closed": 2, "rate": 1.0}, "--rate"),
        ({"closed": 2, "open": True}, "--open"),
        ({"limit": 0}, "--limit"),
        ({"prompts": "ids", "endpoint": "chat"}, "--prompts"),
        ({"goodput": "x:1"}, "--goodput"),
        ({"api_key": "a\nb"}, "--api-key"),
        ({"api_key": "é"}, "--api-key"),
        ({"api_key": ""}, "--api-key"),
        ({"model": ""}, "--model"),
        ({"model": "byte\udcff"}, "--model"),
    ],
)
def test_what_does_not_fit_is_named(given, said):
    with pytest.raises(InputError, match=said):
        checked(settled(**given))


def test_a_key_is_not_shown_when_it_is_refused():
    with pytest.raises(InputError) as error:
        checked(settled(api_key="secret\nkey"))
    assert "secret" not in str(error.value)


def test_what_fits_comes_back():
    assert checked(settled(closed=4, endpoint="chat")).chat
    for given in ({"open": True}, {"rate": 0.5, "limit": 1}, {"prompts": "ids"}, {"model": "m", "api_key": "a b"}):
        found = checked(settled(**given))
        assert {name: getattr(found, name) for name in given} == given
