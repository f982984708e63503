"""From a client's key to its tenant and classes."""

from __future__ import annotations

import hashlib

import pytest

from evenstep.engines.requests.refusals import Refusal
from evenstep.errors import InputError
from evenstep.gateway.config.config import GatewayConfig
from evenstep.gateway.config.sections import ApiKey, RequestClass
from evenstep.gateway.connections.callers import Caller, Callers, class_of, expected_tokens, priority, renumbered

CLASSES = {"fast": RequestClass(), "slow": RequestClass()}


def test_without_keys_anybody_may_ask_for_every_class():
    caller = Callers(GatewayConfig(classes=CLASSES)).find(b"")
    assert isinstance(caller, Caller)
    assert (caller.tenant, class_of(caller, ""), class_of(caller, "slow")) == ("anonymous", 0, 2)


def test_a_key_stands_for_its_tenant_and_its_classes():
    callers = Callers(GatewayConfig(keys=[ApiKey("one", "a", ["slow"]), ApiKey("two", "b", ["*"])], classes=CLASSES))
    first, second = callers.find(b"Bearer one"), callers.find(b"bearer  two")
    assert isinstance(first, Caller) and isinstance(second, Caller)
    assert (first.tenant, class_of(first, ""), class_of(first, "slow")) == ("a", 2, 2)
    assert (second.tenant, class_of(second, ""), class_of(second, "fast")) == ("b", 0, 1)
    refused = class_of(first, "fast")
    assert isinstance(refused, Refusal) and refused.status == 403 and b"fast" not in refused.body()
    assert refused.message.endswith("; its classes: slow.")


@pytest.mark.parametrize("authorization", [b"", b"Bearer", b"Bearer ", b"Bearer onee", b"Bearer on", b"Basic one", b"one"])
def test_every_other_key_is_refused_as_openai_does(authorization):
    found = Callers(GatewayConfig(keys=[ApiKey("one", "a")])).find(authorization)
    assert isinstance(found, Refusal)
    assert (found.status, found.code) == (401, "invalid_api_key")
    assert b"one" not in found.body()


def test_a_config_with_an_empty_key_is_refused_and_no_empty_key_is_ever_found(monkeypatch):
    with pytest.raises(InputError, match=r"keys\[0\]: key is ''; expected a key that is not empty"):
        Callers(GatewayConfig(keys=[ApiKey("", "a")]))
    monkeypatch.setattr("evenstep.gateway.connections.callers.digest_of", lambda *_: hashlib.sha256(b"").digest())
    for authorization in (b"Bearer", b"Bearer ", b"Bearer \t"):
        assert isinstance(Callers(GatewayConfig(keys=[ApiKey("", "a")])).find(authorization), Refusal)


def test_a_key_belongs_to_one_tenant():
    with pytest.raises(InputError, match=r"keys\[1\]: key is '\(of b\)'; expected each key once") as caught:
        Callers(GatewayConfig(keys=[ApiKey("secret", "a"), ApiKey("secret", "b")]))
    assert "secret" not in str(caught.value)


def test_expected_tokens_are_a_whole_number_or_refused():
    assert [expected_tokens(text) for text in ("", "1", "300", "2147483647")] == [0, 1, 300, 2**31 - 1]
    for text in ("0", "-1", "+1", "1.5", "x", "1e3", "²", "2147483648", "99999999999"):
        refused = expected_tokens(text)
        assert isinstance(refused, Refusal) and refused.status == 400
        assert refused.message.startswith(f"request: x-evenstep-expected-tokens is {text!r}; expected an integer from 1 to")


def test_a_priority_is_a_finite_number_or_refused():
    assert [priority(text) for text in ("", "-1.5", "1e3", "0")] == [0, -1.5, 1000, 0]
    for text in ("nan", "inf", "-inf", "1e999", "x", "1,5", "²"):  # no queue can be ordered by these
        refused = priority(text)
        assert isinstance(refused, Refusal) and (refused.status, refused.code) == (400, "bad_header")


@pytest.mark.parametrize(
    ("after", "numbers"),
    [
        ("abc", ()),
        ("abcd", ()),
        ("cab", (2, 3, 1)),
        ("xabc", (2, 3, 4)),
        ("ac", (1, 0, 2)),
        ("ab", (1, 2, 0)),
        ("", (0, 0, 0)),
    ],
)
def test_a_class_is_known_by_its_name_in_another_config(after, numbers):
    assert renumbered("abc", after) == numbers
