"""What follows from a head."""

from __future__ import annotations

from evenstep.gateway.asking import asking_of
from evenstep.gateway.callers import ANONYMOUS, Callers
from evenstep.gateway.config import GatewayConfig
from evenstep.gateway.head import read_request_head
from evenstep.gateway.sections import ApiKey, RequestClass

KEYS = GatewayConfig(
    keys=[ApiKey("sesame", "us", ["fast"])], classes={"fast": RequestClass(), "slow": RequestClass()}
)


def asking(*lines: str, config: GatewayConfig = KEYS, path: str = "/v1/completions"):
    head = "\r\n".join((f"POST {path} HTTP/1.1", "Host: a", *lines, "", "")).encode()
    return asking_of(read_request_head(head), Callers(config), ("x-session",))


def test_a_head_says_who_asks_for_what():
    found = asking(
        "Authorization: Bearer sesame", "X-Request-Id: r-1", "X-Session: s", "X-Evenstep-Task: t",
        "X-Evenstep-Expected-Tokens: 9", "traceparent: 00-aa",
    )  # fmt: skip
    assert found.caller is not None and found.caller.tenant == "us" and found.refusal is None
    assert (found.name, found.kind, found.number, found.expected) == ("r-1", "completions", 1, 9)
    assert (found.session, found.task, found.traceparent) == ("s", "t", "00-aa")
    assert not found.carries_key and found.carried == b"traceparent: 00-aa\r\n"


def test_what_may_not_be_is_refused_and_says_why():
    assert asking().caller is None and asking().refusal.status == 401
    for line, code in (("X-Evenstep-Class: slow", 403), ("X-Evenstep-Expected-Tokens: 0", 400)):
        found = asking("Authorization: Bearer sesame", line)
        assert found.caller is not None and found.refusal.status == code


def test_without_keys_everybody_may_and_a_key_is_the_engines():
    found = asking(
        "Authorization: Bearer own", "X-Request-Id: a b", config=GatewayConfig(), path="/v1/models"
    )
    assert found.caller.tenant == ANONYMOUS and found.carries_key and b"own" in found.carried
    assert (found.name, found.kind) == ("", "other")
