"""Asking a server for its models."""

from __future__ import annotations

import http.client
import http.server
import threading
from dataclasses import replace

import pytest

from evenstep.errors import EngineError, InputError
from evenstep.load.models import first_model, get
from evenstep.load.settings import target_of


@pytest.fixture
def served():
    """A server that answers with what is put into it: status and body."""
    answer = {"status": 200, "body": b'{"data": [{"id": "tiny"}]}', "seen": []}

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer["seen"].append((self.path, self.headers.get("Authorization")))
            self.send_response(answer["status"])
            self.end_headers()
            self.wfile.write(answer["body"])

        def log_message(self, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        answer["target"] = target_of(f"http://127.0.0.1:{listening.server_port}/deep")
        yield answer
        listening.shutdown()
        thread.join()


def test_the_first_model_is_taken(served):
    assert first_model(served["target"], "k") == "tiny"
    assert served["seen"] == [("/deep/v1/models", "Bearer k")]


@pytest.mark.parametrize("body", [b"<html>", b'{"data": []}', b'{"data": [1]}', b"\xff"])
def test_what_is_no_list_of_models_is_the_server_s_fault(served, body):
    served["body"] = body
    with pytest.raises(EngineError, match=r"--model"):
        first_model(served["target"], None)


def test_a_key_that_is_refused_is_ours(served):
    for status in (401, 403):
        served["status"] = status
        with pytest.raises(InputError, match=rf"--api-key is '\(hidden\)'.*answered {status}"):
            first_model(served["target"], "secret")
    served["status"] = 500
    with pytest.raises(EngineError, match=r"500"):
        first_model(served["target"], None)


def test_any_path_can_be_read(served):
    served["body"] = b"up 1"
    assert get(served["target"], "/metrics") == (200, b"up 1")
    assert served["seen"] == [("/deep/metrics", None)], "no key is sent that was not given"


def test_a_server_without_tls_is_not_read_where_tls_is_asked_for(served):
    with pytest.raises(InputError, match=r"--url is 'https://127.0.0.1:\d+'; expected a server that answers"):
        get(replace(served["target"], secure=True), "/metrics")
    assert served["seen"] == []


def test_a_server_that_is_not_there_is_an_input_error():
    with pytest.raises(InputError, match=r"--url is 'http://127.0.0.1:1'"):
        get(target_of("http://127.0.0.1:1"), "/v1/models")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer"),
        (http.client.BadStatusLine("SSH-2.0"), "SSH-2.0"),
        (TimeoutError("timed out"), "timed out"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_what_kept_a_server_from_answering_is_said_in_its_words(served, monkeypatch, error, said):
    def fails(self):
        assert self.timeout == 10.0
        raise error

    monkeypatch.setattr(http.client.HTTPConnection, "getresponse", fails)
    with pytest.raises(InputError, match=rf"expected a server that answers. {said}\.$"):
        get(served["target"], "/metrics")
