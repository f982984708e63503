"""A config is shown with origins and without secrets."""

from __future__ import annotations

import json

import pytest

from evenstep.errors import InputError
from evenstep.gateway.config.layers import Sources
from evenstep.gateway.config.show import as_json, as_text

SOURCES = Sources(
    environment={"EVENSTEP_ADMIN_KEY": "sk-admin"},
    flags={
        "workers": ("command line --worker", "http://a:1,api_key=sk-engine http://b:1"),
        "keys": ("command line --set", '[{"key": "sk-client", "tenant": "t"}, {"key": "env:K", "tenant": "u"}]'),
        "decisions.salt": ("command line --set", "sk-salt"),
        "traces.endpoint": ("command line --set", "https://me:sk-collector@a:4318/v1/traces"),
        "discovery.kubernetes": ("command line --set", '[{"selector": "a", "api": "https://me:sk-api@a"}]'),
        "listen.tls.certificate": ("command line --set", "server.pem"),
        "listen.tls.key": ("command line --set", "server.key"),
        "admin.tls.certificate": ("command line --set", "admin.pem"),
        "admin.tls.key": ("command line --set", "admin.key"),
    },
)


def test_no_secret_is_ever_shown_and_its_place_is():
    for text in (as_text(SOURCES.settled()), as_json(SOURCES.settled())):
        assert "sk-" not in text
        assert "env:K" in text and "(hidden)" in text
        assert "server.key" in text and "admin.key" in text
        assert "https://(hidden)@a:4318/v1/traces" in text and "https://(hidden)@a" in text


def test_the_user_of_a_url_that_is_refused_is_not_shown():
    with pytest.raises(InputError, match=r"traces.endpoint is '//\(hidden\)@a'; expected a URL"):
        Sources(flags={"traces.endpoint": ("command line", "ftp://me:sk-1@a")}).settled()


@pytest.mark.parametrize("setting", ["workers", "keys", "admin", "decisions"])
def test_text_in_place_of_a_list_or_section_with_secrets_is_not_shown(setting, tmp_path):
    file = tmp_path / "gateway.yaml"
    file.write_text(f"version: 1\n{setting}: sk-text\n")
    with pytest.raises(InputError, match=rf"line 2: {setting} is '\(hidden\)'; expected a (list|mapping)"):
        Sources(file=str(file)).settled()


def test_a_worker_without_its_dash_is_shown_unless_it_has_a_key(tmp_path):
    file = tmp_path / "gateway.yaml"
    for more, shown in (("", "{'url': 'http://a'}"), (", api_key: sk-text", "'(hidden)'")):
        file.write_text(f"version: 1\nworkers: {{url: http://a{more}}}\n")
        with pytest.raises(InputError) as error:
            Sources(file=str(file)).settled()
        assert str(error.value).endswith(f"line 2: workers is {shown}; expected a list.")


def test_every_setting_is_shown_with_its_origin():
    settled = SOURCES.settled()
    rows = {row["setting"]: row for row in json.loads(as_json(settled))}
    assert list(rows) == list(settled.origin)
    assert rows["admin.key"]["origin"] == "environment EVENSTEP_ADMIN_KEY"
    assert [w["url"] for w in rows["workers"]["value"]] == ["http://a:1", "http://b:1"]
    lines = as_text(settled).splitlines()
    assert any(line.startswith("workers[1] ") and line.endswith("command line --worker") for line in lines)
    assert any(line.split() == ["policy", "best", "default"] for line in lines)
