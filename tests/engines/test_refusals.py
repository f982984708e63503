"""Error objects, in the form OpenAI's clients read."""

from __future__ import annotations

import json

import msgspec
import pytest

from evenstep.engines.requests import refusals
from evenstep.engines.requests.refusals import Refusal, denies_model, is_foreign, of_engine
from evenstep.errors import InputError

EVERY = [
    (
        refusals.bad_request(InputError("request", "n", -1, "an integer >= 1")),
        400,
        "invalid_request_error",
        None,
    ),
    (refusals.unknown_model("gpt"), 404, "invalid_request_error", "model_not_found"),
    (refusals.unknown_path("GET", "/x"), 404, "invalid_request_error", "unknown_url"),
    (refusals.UNAUTHORIZED, 401, "invalid_request_error", "invalid_api_key"),
    (refusals.too_many("Too many.", 2), 429, "rate_limit_error", "rate_limit_exceeded"),
    (refusals.overloaded(1.2), 503, "service_unavailable_error", "overloaded"),
    (refusals.waited_too_long(30, 5), 503, "service_unavailable_error", "pool_timeout"),
    (refusals.no_other_engine(5), 503, "service_unavailable_error", "pool_timeout"),
    (refusals.lasted_too_long(3600.0), 504, "server_error", "request_timeout"),
    (refusals.TOO_SLOW, 408, "invalid_request_error", "request_timeout"),
    (refusals.ENGINE_FAILED, 502, "server_error", "engine_failed"),
    (refusals.ENGINE_TOO_SLOW, 504, "server_error", "engine_timeout"),
    (refusals.stream_broken("it has several choices"), 502, "server_error", "stream_broken"),
]


@pytest.mark.parametrize(("refusal", "status", "kind", "code"), EVERY)
def test_every_refusal_is_an_error_object(refusal: Refusal, status, kind, code):
    error = json.loads(refusal.body())["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (refusal.status, error["type"], error["code"]) == (status, kind, code)
    assert error["message"].endswith(".")
    assert refusal.event() == b"data: " + refusal.body() + b"\n\n"


def test_a_bad_field_is_named():
    refusal = refusals.bad_request(InputError("request", "n", -1, "an integer >= 1"))
    assert json.loads(refusal.body())["error"] == {
        "message": "request: n is -1; expected an integer >= 1.",
        "type": "invalid_request_error",
        "param": "n",
        "code": None,
    }


def test_retry_after_is_whole_seconds_and_never_too_early():
    assert refusals.overloaded(1.2).retry_after == b"2"
    assert refusals.overloaded(2.0).retry_after == b"2"
    assert refusals.UNAUTHORIZED.retry_after == b""


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":{"message":"too long at http://10.0.0.3:8000/v1, see 10.1.2.3:80","type":"BadRequestError","param":"prompt","code":400}}',
        b'{"object":"error","message":"too long at http://10.0.0.3:8000/v1, see 10.1.2.3:80","type":"BadRequestError","param":"prompt","code":400}',
    ],
)
def test_a_clients_fault_keeps_the_engines_words_without_its_address(body):
    for status in (400, 200):  # 200: inside a stream
        refusal = of_engine(body, status)
        assert refusal.status == 400 and refusal.param == "prompt" and refusal.kind == "BadRequestError"
        assert refusal.message == "too long at (address) see (address)"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("engine-3.internal:8000 is full", "(address) is full"),
        ("ask vllm-0:8000", "ask (address)"),
        ("engine.svc:80, not engine.svc:443", "(address), not (address)"),
        ("[fd00::1]:8000 and [::1]", "(address) and (address)"),
        ("at 10.0.0.1:80, localhost:81", "at (address), (address)"),
        ("max_tokens:4096, top_p:0.95, [1, 2]: 3:4096 tokens", "max_tokens:4096, top_p:0.95, [1, 2]: 3:4096 tokens"),
        ("'a-b: 1234' in body.messages: 12 items", "'a-b: 1234' in body.messages: 12 items"),
    ],
)
def test_no_field_of_a_refusal_tells_an_engines_address_and_other_words_stay(said, told):
    fault = {"message": said, "type": said, "param": said, "code": said}
    refusal = of_engine(msgspec.json.encode({"error": fault}), 400)
    assert (refusal.message, refusal.kind, refusal.param, refusal.code) == (told,) * 4


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"detail":"no route at http://10.0.0.3:8000/v1"}', "no route at (address)"),
        (
            b'{"detail":[{"loc":["body","input",0],"msg":"Field required","input":{}},{"msg":"bad"},{"loc":1,"msg":"odd"},7]}',
            "body.input.0: Field required; bad; odd",
        ),
        (b'{"error":{"message":"said","type":7,"param":["a"],"code":4.5}}', "said"),
        (b'{"error":"said","type":null,"code":{}}', "said"),
        (b'{"error":{"message":null},"detail":{"a":1}}', "The engine refused the request."),
        (b'{"detail":[]}', "The engine refused the request."),
        (b"[1]", "The engine refused the request."),
    ],
)
def test_a_clients_fault_keeps_the_engines_words_in_whichever_form(body, told):
    refusal = of_engine(body, 422)
    assert (refusal.message, refusal.status, refusal.kind) == (told, 422, "invalid_request_error")
    assert refusal.param is refusal.code is None


def test_an_engines_own_fault_is_told_without_its_words():
    for body in (
        b'{"error":{"message":"CUDA at node7","code":500}}',
        b"<html>",
        b"",
        b'{"error":"x"}',
        b"[" * 100_000,
    ):
        refusal = of_engine(body, 200 if body else 500)
        assert refusal == refusals.ENGINE_FAILED


def test_back_pressure_of_an_engine_is_passed_on():
    assert of_engine(b"", 503, 7).retry_after == b"7"
    assert of_engine(b'{"error":{"message":"slow down","code":429}}', 429, 3).retry_after == b"3"


@pytest.mark.parametrize(
    ("body", "denies"),
    [
        (b'{"error":{"message":"The model `m` does not exist.","type":"NotFoundError","param":"model","code":404}}', True),
        (b'{"object":"error","message":"The model `m` does not exist.","type":"NotFoundError","code":404}', True),
        (b'{"error":{"message":"nothing here","code":"model_not_found"}}', True),
        (b'{"error":"Model \'m\' not found"}', True),
        (b'{"detail":"Not Found"}', False),
        (b'{"error":{"message":"no such route","code":404}}', False),
        (b"<html>", False),
    ],
)
def test_an_engine_denies_a_model_in_whichever_words(body, denies):
    assert denies_model(body, 404) is denies
    assert not denies_model(body, 400)


@pytest.mark.parametrize(
    ("body", "is_so"),
    [
        (b"", True),
        (b"<html>404 Not Found</html>", True),
        (b"404 page not found", True),
        (b"[]", True),
        (b'{"detail":"Not Found"}', False),
        (b'{"error":{"message":"no such route","code":404}}', False),
    ],
)
def test_another_server_at_an_engines_address_is_known_by_its_words(body, is_so):
    assert [is_foreign(body, status) for status in (404, 405, 400, 413)] == [is_so, is_so, False, False]
