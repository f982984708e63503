"""The flags of a gateway become sources of its config."""

from __future__ import annotations

import pytest

from evenstep.cli.parts.gateway_flags import add_gateway_flags, sources_of
from evenstep.cli.parts.parsing import ArgumentParser
from evenstep.errors import InputError


def config_of(*words: str):
    parser = ArgumentParser(prog="serve")
    add_gateway_flags(parser)
    return sources_of(parser.parse_args(list(words))).settled().value


def test_workers_of_all_kinds_come_together():
    config = config_of(
        "--worker",
        "http://a:1,slots=3",
        "--group",
        "http://b:1,http://c:1,slots=4",
        "--prefill",
        "http://p:1",
        "--decode",
        "http://d:1",
        "--slots",
        "9",
    )
    assert [(w.name, w.slots, w.group, w.role) for w in config.fleet()] == [
        ("a:1", 3, "", "decode"),
        ("b:1", 4, "b:1", "decode"),
        ("c:1", 4, "b:1", "decode"),
        ("p:1", 9, "", "prefill"),
        ("d:1", 9, "", "decode"),
    ]


def test_flags_reach_their_settings():
    config = config_of(
        "--host",
        "::1",
        "--port",
        "0",
        "--admin-port",
        "1",
        "--policy",
        "br-h:horizon=20",
        "--predictor",
        "bounded",
        "--log-decisions",
        "log.jsonl",
        "--plain-keys",
        "--set",
        "limits.body_bytes=9",
        "--set",
        "log.access=true",
    )
    assert (config.listen.host, config.listen.port, config.admin.port) == ("::1", 0, 1)
    assert (config.policy, config.predictor, config.decisions.path) == (
        "br-h:horizon=20",
        "bounded",
        "log.jsonl",
    )
    assert config.decisions.plain_keys and config.log.access and config.limits.body_bytes == 9


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "slots"], "--set is 'slots'; expected SETTING=VALUE"),
        (["--prefill", "http://p:1"], "--decode is 'missing'"),
        (["--worker", "http://a:1,3"], "command line --worker: worker is"),
        (["--group", "slots=3"], "command line --group: group is"),
        (["--worker", "http://a:1", "--worker", "http://a:1"], "expected each worker once"),
    ],
)
def test_a_flag_of_the_wrong_form_is_refused(words, said):
    with pytest.raises(InputError, match=said):
        config_of(*words)
