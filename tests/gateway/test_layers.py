"""Defaults, file, environment and flags are laid over one another, and each value knows where it came from."""

from __future__ import annotations

import re

import pytest

from evenstep.errors import InputError
from evenstep.gateway.config.config import GatewayConfig, value_at
from evenstep.gateway.config.layers import Sources, leaves, variable_of
from evenstep.gateway.config.sections import Tls


@pytest.fixture
def file(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "gateway.yaml"
        path.write_text(f"version: 1\n{text}")
        return str(path)

    return write


def test_flags_win_over_the_environment_over_the_file_over_defaults(file):
    found = Sources(
        file=file("listen: {host: 0.0.0.0, port: 1}\nslots: 3\npolicy: br-0\n"),
        environment={"EVENSTEP_LISTEN_PORT": "2", "EVENSTEP_SLOTS": "4"},
        flags={"slots": ("command line --slots", "5")},
    ).settled()
    assert (found.value.listen.host, found.value.listen.port, found.value.slots) == ("0.0.0.0", 2, 5)
    assert found.value.policy == "br-0"
    assert found.origin["listen.port"] == "environment EVENSTEP_LISTEN_PORT"
    assert found.origin["slots"] == "command line --slots"
    assert found.origin["policy"].endswith("gateway.yaml line 4")
    assert found.origin["predictor"] == "default"


def test_every_setting_has_an_origin_and_a_variable_of_its_own():
    found = Sources().settled()
    known = [name for name, _ in leaves(GatewayConfig)]
    assert list(found.origin) == known
    assert set(found.origin.values()) == {"default"}
    assert len({variable_of(name) for name in known}) == len(known)
    assert found.value == GatewayConfig()
    assert value_at(found.value, "listen.tls.certificate") is None


def test_text_becomes_what_its_setting_is():
    environment = {
        "EVENSTEP_WORKERS": "http://a:1,slots=3 http://b:1",
        "EVENSTEP_ADMIN_ENABLED": "false",
        "EVENSTEP_DISPATCH_KV_RESERVE": "none",
        "EVENSTEP_SESSION_HEADERS": "x-a, x-b",
        "EVENSTEP_TENANTS": '{"a": {"per_s": 2}}',
        "EVENSTEP_LOG_FORMAT": "json",
    }
    config = Sources(environment=environment).settled().value
    assert [(w.url, w.slots) for w in config.workers] == [("http://a:1", 3), ("http://b:1", None)]
    assert not config.admin.enabled and config.dispatch.kv_reserve is None
    assert config.session_headers == ["x-a", "x-b"]
    assert config.tenants["a"].per_s == 2.0 and config.log.format == "json"


def test_a_section_that_may_be_absent_is_replaced_as_a_whole_or_leaf_by_leaf(file):
    text = "listen: {tls: {certificate: a.pem, key: a.key}}\n"
    found = Sources(file=file(text), environment={"EVENSTEP_LISTEN_TLS_KEY": "b.key"}).settled()
    assert found.value.listen.tls == Tls("a.pem", "b.key")
    assert found.origin["listen.tls.certificate"].endswith("line 2")
    assert Sources(file=file("listen: {tls: null}\n")).settled().value.listen.tls is None
    leaf = {"EVENSTEP_LISTEN_TLS_CERTIFICATE": "c.pem"}
    found = Sources(file=file("listen: {tls: null}\n"), environment=leaf).settled()
    assert found.value.listen.tls == Tls("c.pem") and "listen.tls" not in found.origin


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("limit: {}\n", r"line 2: key is 'limit'; expected a known key. Did you mean limits"),
        ("limits:\n  body_byte: 3\n", r"line 3: key is 'limits.body_byte'.*body_bytes"),
        ("workers:\n  - {url: 'http://a:1', slot: 3}\n", r"line 3: key is 'workers\[0\].slot'.*slots"),
        ("tenants:\n  a: {per_sec: 3}\n", r"line 3: key is 'tenants.a.per_sec'.*per_s"),
        ("slots: many\n", r"line 2: slots is 'many'; expected an integer"),
        ("limits: {body_s: 0}\n", r"line 2: limits.body_s is 0.0; expected a number above 0"),
        ("keys: [{key: k}]\n", r"keys\[0\].tenant is 'missing'"),
        ("keys: [{key: '', tenant: t}]\n", r"line 2: keys\[0\].key is ''; expected a key that is not empty"),
        ("dispatch:\n  retries: -1\n", r"line 3: dispatch.retries is -1; expected a number >= 0"),
        ("keys: [{key: k, tenant: t, classes: [x]}]\n", r"line 2: keys\[0\].classes is 'x'"),
        ("policy: brh\n", "'brh'; expected a known policy. Did you mean br-h"),
        (
            "\nworkers: [{url: 'http://a:1'}, {url: 'http://a:1'}]\n",
            r"line 3: workers.name is 'a:1'; expected each worker once",
        ),
        ("workers:\n  - {url: 'http://a:1', slots: 0}\n", r"line 2, worker a:1: slots is 0; expected an integer >= 1"),
        ("workers: [{url: 'a:1'}]\n", "line 2, worker a:1: url is 'a:1'; expected http://host:port"),
        ("\ndiscovery:\n  dns: [{name: ''}]\n", r"line 4: discovery.dns\[0\].name is ''; expected a host name"),
        (
            "discovery: {dns: [{name: a, worker: {url: 'http://', slots: 0}}]}\n",
            r"line 2: discovery.dns\[0\].worker.slots is 0; expected an integer >= 1",
        ),
        ("tenants:\n  a: {per_s: 1}\n  b: {per_s: x}\n", "line 4: tenants.b.per_s is 'x'; expected a number"),
        ("tenants:\n  a: {per_s: 1}\n  7: {per_s: 1}\n", "line 4: key is 'tenants.7'; expected text. Write it in quotes"),
        ("keys: [{key: s3cret, tenant: a}]\ntokenizers: {m: 1}\n", "line 3: tokenizers.m is 1; expected text"),
        ("tenants: {a.b: {per_s: -1}}\n", "line 2: tenants.a.b.per_s is -1.0; expected a number >= 0"),
    ],
)
def test_a_bad_file_is_refused_with_its_line_and_the_nearest_name(file, text, said):
    with pytest.raises(InputError, match=said):
        Sources(file=file(text)).settled()


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"EVENSTEP_LIMITS_BODYBYTES": "3"}, "EVENSTEP_LIMITS_BODYBYTES.*Did you mean EVENSTEP_LIMITS_BODY_BYTES"),
        ({"EVENSTEP_SLOTS": "x"}, "environment EVENSTEP_SLOTS: slots is 'x'; expected an integer"),
        ({"EVENSTEP_LIMITS_IDLE_S": "1e400"}, "limits.idle_s is '1e400'; expected a finite number"),
        ({"EVENSTEP_LOG_FORMAT": "yaml"}, "expected one of text, json"),
        ({"EVENSTEP_TENANTS": "{"}, "tenants is '{'; expected JSON that fits"),
        ({"EVENSTEP_TENANTS": '{"a":' + 3000 * "["}, "tenants is '.*; expected JSON that fits"),
        ({"EVENSTEP_TENANTS": '{"b":{},"a":{"concurrent":"5"}}'}, "tenants.a.concurrent is '5'; expected an integer"),
        ({"EVENSTEP_TENANTS": '{"a.b":{"concurrent":"5"}}'}, r"tenants.a.b.concurrent is '5'; expected an integer"),
        ({"EVENSTEP_TENANTS": '{"a": {"per_sec": 2}}'}, "EVENSTEP_TENANTS: key is 'tenants.a.per_sec'.*per_s"),
        ({"EVENSTEP_KEYS": '[{"key": "k", "tenant": "t", "class": []}]'}, r"keys\[0\].class'.*classes"),
        ({"EVENSTEP_LISTEN_PORT": "70000"}, "environment EVENSTEP_LISTEN_PORT: listen.port is 70000"),
        ({"EVENSTEP_WORKERS": "http://a:1,slot=3"}, "key is 'slot'.*slots"),
        (
            {"EVENSTEP_ADMIN_HOST": "0.0.0.0"},
            "^environment EVENSTEP_ADMIN_HOST: admin.host is '0.0.0.0'; expected a loopback",
        ),
    ],
)
def test_a_bad_variable_is_refused_by_name(environment, said):
    with pytest.raises(InputError, match=said):
        Sources(environment=environment).settled()


@pytest.mark.parametrize("name", ["slots", "dispatch.seed", "decisions.part_bytes", "limits.connections"])
def test_an_integer_too_large_for_compiled_code_is_refused_where_it_was_given(file, name):
    """``GET /config`` failed on ``slots: 100000000000000000000``, and so did the first round."""
    section, _, last = name.rpartition(".")
    line = f"{section}: {{{last}: {10**20}}}" if section else f"{last}: {10**20}"
    said = f"{name} is {10**20}; expected an integer from {-(1 << 53)} to {1 << 53}."
    for sources, place in (
        (Sources(file=file(f"{line}\n")), "gateway.yaml line 2"),
        (Sources(environment={variable_of(name): str(10**20)}), f"environment {variable_of(name)}"),
        (Sources(flags={name: ("command line", str(10**20))}), "command line"),
    ):
        with pytest.raises(InputError) as error:
            sources.settled()
        assert str(error.value).endswith(f"{place}: {said}")


@pytest.mark.parametrize(
    ("section", "name", "value", "said"),
    [
        ("dispatch", "good_rounds", "50", "It is called policy_cooldown_s, in seconds"),
        ("limits", "fast_path", "true", r"The fast path is gone\. Remove this setting\."),
    ],
)
def test_a_former_setting_is_refused_with_what_to_do_instead(file, section, name, value, said):
    for sources in (
        Sources(file=file(f"{section}: {{{name}: {value}}}\n")),
        Sources(environment={f"EVENSTEP_{section}_{name}".upper(): value}),
        Sources(flags={f"{section}.{name}": ("command line --set", value)}),
    ):
        with pytest.raises(InputError, match=said):
            sources.settled()


def test_a_flag_that_sets_nothing_known_offers_the_nearest():
    with pytest.raises(InputError, match=r"command line --set: setting is 'slot'.*slots"):
        Sources(flags={"slot": ("command line --set", "3")}).settled()


def test_what_kubernetes_says_of_a_service_called_evenstep_admin_is_no_setting():
    environment = {
        "EVENSTEP_ADMIN_PORT": "tcp://10.0.0.1:8090",
        "EVENSTEP_ADMIN_SERVICE_HOST": "10.0.0.1",
        "EVENSTEP_ADMIN_SERVICE_PORT": "8090",
        "EVENSTEP_ADMIN_PORT_8090_TCP_ADDR": "10.0.0.1",
        "EVENSTEP_PLAIN": "1",
    }
    assert Sources(environment=environment).settled().value == GatewayConfig()


@pytest.mark.parametrize(
    "text",
    [
        "keys: [s3cret]\n",
        "keys: {s3cret: research}\n",
        "keys: [{key: [s3cret], tenant: a}]\n",
        "workers: ['http://a:1,api_key=s3cret']\n",
        "workers: [{url: [], api_key: s3cret}, 3]\n",
        "workers: {url: 'http://a:1', api_key: s3cret}\n",
        "workers: [['http://a:1', s3cret]]\n",
        "workers: [s3cret, 'http://a:1']\n",
        "workers: http://a:1 api_key s3cret\n",
        "admin: [key, s3cret]\n",
        "discovery: {kubernetes: [{selector: a, token: [s3cret]}]}\n",
        "decisions: {salt: [s3cret]}\n",
    ],
)
def test_no_error_about_a_file_shows_a_secret(file, text):
    with pytest.raises(InputError) as caught:
        Sources(file=file(text)).settled()
    assert "s3cret" not in f"{caught.value} {caught.value.value}"


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("KEYS", '[{"key":"s3cret","tenantt":"research"}]'),
        ("KEYS", '["s3cret"]'),
        ("KEYS", "s3cret"),
        ("DISCOVERY_KUBERNETES", '[{"token":"s3cret"}]'),
        ("WORKERS", "http://a:1,api_key=s3cret,api_key=s4cret"),
        ("WORKERS", "http://a:1,api_key=s3cret,4s3cret"),
        ("WORKERS", "http://a:1,api_key:s3cret"),
    ],
)
def test_no_error_about_a_variable_shows_a_secret(variable, text):
    with pytest.raises(InputError) as caught:
        Sources(environment={f"EVENSTEP_{variable}": text}).settled()
    assert re.search("hidden|tenantt|selector is 'missing'", str(caught.value))
    assert "cret" not in f"{caught.value} {caught.value.value}"


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("workers", "http://a:1,models=m\udcff"),
        ("workers", "http://a:1,name=w\udcff"),
        ("policy", "jsq\udcff"),
        ("session_headers", "a\udcff"),
        ("aliases", '{"a\udcff":"b"}'),
        ("admin.key", "s3cret\udcff"),
    ],
)
def test_bytes_that_are_no_utf_8_are_refused_before_anything_starts(setting, text):
    for sources in (Sources(flags={setting: ("flag", text)}), Sources(environment={variable_of(setting): text})):
        with pytest.raises(InputError, match=f"{setting} is .* expected UTF-8 text") as caught:
            sources.settled()
        assert "s3cret" not in str(caught.value)
