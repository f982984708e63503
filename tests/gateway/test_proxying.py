"""What is no generation goes to the engine that serves fewest, and comes back as it is."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.gateway.running import (
    END,
    EVENTS,
    STALLS,
    engine,
    framed,
    no_more_files,
    raw,
    request,
    resets_the_second,
    serving,
    until,
    whole,
)

from evenstep.gateway.config.worker import Worker

CLOSE = "Connection: close\r\nContent-Type: application/json\r\n"
BODY = {"model": "m", "input": "x"}


def rest(answer):
    return answer.partition(b"\r\n\r\n")[2]


def test_bodies_heads_and_queries_go_through_and_headers_of_routing_do_not():
    async def story():
        async def answers(number, head, body, writer):
            assert head.startswith(b"POST /v1/embeddings?a=b HTTP/1.1\r\n")
            assert b"application/json" in head
            assert b"x-data-parallel-rank" not in head.lower()
            assert json.loads(body) == BODY
            writer.write(whole(200, b'{"data":[1]}', more="Cache-Control: no-store\r\nServer: x\r\n"))

        async with engine(answers) as one, serving(one.url) as server:
            headers = CLOSE + "X-data-parallel-rank: 1\r\n"
            answer = await raw(server, request(BODY, "/v1/embeddings?a=b", headers=headers))
            assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"cache-control: no-store\r\n" in answer
            assert b"Server" not in answer
            assert rest(answer) == b'{"data":[1]}'
            assert server.gateway.snapshot()["models"]["m"]["requests_total"] == {}

    asyncio.run(story())


def test_a_request_that_names_no_model_goes_to_the_worker_with_the_fewest_of_all_models():
    async def story():
        async def answers(number, head, body, writer):
            if b"/v1/completions" in head:
                return STALLS
            writer.write(whole(200, b"{}"))

        async with engine(answers) as a, engine(answers) as b:
            workers = Worker(a.url, models=["one"]), Worker(b.url, models=["two"])
            async with serving(*workers) as server:
                _, leaves = await asyncio.open_connection("127.0.0.1", server.port)
                leaves.write(request({"model": "one", "prompt": "x"}))
                await until(lambda: a.asked)
                assert b" 200 OK" in await raw(server, request(b"", "/v1/files", "GET", CLOSE))
                assert len(b.asked) == len(a.asked) == 1
                leaves.close()

    asyncio.run(story())


FORM = (
    b'--a b\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; filename="x"; %b\r\n\r\ntwo\r\n'
    b'--a b\r\ncontent-disposition: form-data; name="file"; filename="model"\r\n\r\n\r\n\r\n--\r\n--a b--\r\n'
)


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ('multipart/form-data; boundary="a b"', FORM % b'name="model"', 200),
        ('Multipart/Form-Data; charset=utf-8; Boundary="a b"', FORM % b"name=model", 200),
        ('multipart/form-data; boundary="a b"', FORM.replace(b"two", b"three") % b'name="model"', 404),
        ('multipart/form-data; boundary="a b"', FORM % b'name="models"', 418),
        ("multipart/form-data", FORM % b'name="model"', 418),
        ("Application/JSON", b'{"model":"two"}', 200),
    ],
)
def test_the_model_of_an_audio_file_is_named_in_a_form(kind, body, status):
    async def story():
        async def cannot(number, head, body, writer):
            writer.write(whole(418, b"{}"))

        async def answers(number, head, body, writer):
            writer.write(whole(200, b"{}"))

        async with (
            engine(cannot) as a,
            engine(answers) as b,
            serving(Worker(a.url, models=["one"]), Worker(b.url, models=["two"])) as server,
        ):
            headers = f"Connection: close\r\nContent-Type: {kind}\r\n"
            answer = await raw(server, request(body, "/v1/audio/transcriptions", headers=headers))
            assert answer.startswith(b"HTTP/1.1 %d " % status)

    asyncio.run(story())


def test_an_engine_that_fails_is_replaced_each_one_once():
    async def story():
        async def fails(number, head, body, writer):
            writer.write(whole(500, b"http://10.0.0.1"))

        async def redirects(number, head, body, writer):
            writer.write(whole(307, b"", more="Location: http://elsewhere\r\n"))

        async def dies(number, head, body, writer):
            return False

        async def answers(number, head, body, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed(b"ab") + END)

        async with engine(fails) as a, engine(redirects) as b, engine(dies) as c, engine(answers) as d:
            async with serving(a.url, b.url, c.url, d.url) as server:
                answer = await raw(server, request(BODY, "/v1/x", headers=CLOSE))
                assert b"\r\nab\r\n" in answer
                assert [len(one.asked) for one in (a, b, c, d)] == [1, 1, 1, 1]
            async with serving(a.url, b.url, c.url) as server:
                answer = await raw(server, request(BODY, "/v1/x", headers=CLOSE))
                assert answer.startswith(b"HTTP/1.1 502 ")
                assert b"10.0.0.1" not in answer
                assert b"elsewhere" not in answer

    asyncio.run(story())


def test_a_kept_connection_that_is_reset_at_once_costs_nothing():
    async def story():
        async with engine(resets_the_second) as one, serving(one.url) as server:
            for _ in range(2):
                assert b"\r\n\r\nab" in await raw(server, request(BODY, "/v1/x", headers=CLOSE))
            assert len(one.asked) == 3

    asyncio.run(story())


@pytest.mark.parametrize(("status", "expected", "asked"), [(400, 400, 1), (500, 502, 2), (501, 501, 2)])
def test_a_long_refusal_is_judged_by_its_status_as_a_short_one_is(status, expected, asked):
    async def refuses(number, head, body, writer):
        writer.write(whole(status, b"x" * 70_000))

    async def story():
        async with engine(refuses) as one, engine(refuses) as two, serving(one.url, two.url) as server:
            answer = await raw(server, request(BODY, "/v1/embeddings", headers=CLOSE))
            assert answer.startswith(b"HTTP/1.1 %d " % expected)
            assert len(one.asked) + len(two.asked) == asked

    asyncio.run(story())


@pytest.mark.parametrize(
    ("status", "said"),
    [(501, b'{"detail": "The model does not support Embeddings API"}'), (404, b"<html>another server</html>"), (405, b"")],
)
def test_what_one_engine_cannot_do_another_may(status, said):
    async def cannot(number, head, body, writer):
        writer.write(whole(status, said))

    async def can(number, head, body, writer):
        writer.write(whole(200, b"{}"))

    async def story():
        async with engine(cannot) as one, engine(can) as two, serving(one.url, two.url) as server:
            assert b"\r\n\r\n{}" in await raw(server, request(BODY, "/v1/embeddings", headers=CLOSE))
            assert (len(one.asked), len(two.asked)) == (1, 1)

    asyncio.run(story())


def test_a_head_request_that_an_engine_refuses_is_not_sent_to_the_others():
    """Without a body, an engine's answer cannot be told from that of another server."""

    async def refuses(number, head, body, writer):
        writer.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Type: application/json\r\nContent-Length: 31\r\n\r\n")

    async def story():
        async with engine(refuses) as one, engine(refuses) as two, serving(one.url, two.url) as server:
            asked = b"HEAD /v1/embeddings HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            assert (await raw(server, asked)).startswith(b"HTTP/1.1 405 ")
            assert len(one.asked) + len(two.asked) == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("status", "last", "expected"),
    [(501, "fails", 501), (503, "fails", 503), (500, "fails", 502), (404, "fails", 502), (500, "no files", 503)],
)
def test_where_no_engine_is_left_the_most_telling_answer_is_passed_on(status, last, expected):
    async def story():
        async def refuses(number, head, body, writer):
            if last == "no files":
                no_more_files(server)
            writer.write(whole(status, b'{"detail": "The model does not exist"}', more="Retry-After: 3\r\n"))

        async def fails(number, head, body, writer):
            return False

        async with engine(refuses) as one, engine(fails) as two, serving(one.url, two.url) as server:
            server.gateway.pools.all[0].backends[two.url.removeprefix("http://")].passing += 1  # the other is first
            answer = await raw(server, request(BODY, "/v1/embeddings", headers=CLOSE))
            assert answer.startswith(b"HTTP/1.1 %d " % expected)
            assert (b"Retry-After: 3" in answer) is (expected == status)
            assert len(one.asked) == 1

    asyncio.run(story())


def test_what_an_engine_says_against_it_is_told_in_openais_form():
    async def story():
        async def refuses(number, head, body, writer):
            status, said = (404, "Not Found") if b" /v1/x " in head else (501, "The model does not support Embeddings API")
            writer.write(whole(status, json.dumps({"detail": said}).encode(), more="Retry-After: 3\r\n"))

        async with engine(refuses) as one, serving(one.url) as server:
            answer = await raw(server, request(BODY, "/v1/x", headers=CLOSE))
            assert answer.startswith(b"HTTP/1.1 404 ")
            assert json.loads(rest(answer))["error"]["message"] == "Not Found"
            assert b"Retry-After: 3" in answer
            answer = await raw(server, request(BODY, "/v1/embeddings", headers=CLOSE))
            assert answer.startswith(b"HTTP/1.1 501 ")
            assert json.loads(rest(answer))["error"]["message"] == "The model does not support Embeddings API"

    asyncio.run(story())


def test_an_answer_counts_once_though_the_first_engine_fails_after_its_head():
    async def story():
        async def breaks(number, head, body, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            await writer.drain()
            return False

        async def answers(number, head, body, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed(b"ab") + END)

        async def says_nothing(number, head, body, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + END)

        for last, codes in ((answers, {"200": 1}), (says_nothing, {"200": 1}), (breaks, {"502": 1})):
            async with engine(breaks) as one, engine(last) as two, serving(one.url, two.url) as server:
                await raw(server, request(BODY, "/v1/x", headers=CLOSE))
                assert (len(one.asked), len(two.asked)) == (1, 1)
                assert server.gateway.snapshot()["gateway"]["answers_total"] == codes

    asyncio.run(story())


def test_an_answer_that_breaks_off_is_asked_for_elsewhere_or_seen_to_be_broken():
    async def story():
        async def breaks(number, head, body, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
            await writer.drain()
            return False

        async def breaks_later(number, head, body, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed(b"ab"))
            await writer.drain()
            return False

        async def answers(number, head, body, writer):
            writer.write(whole(200, b"abcde"))

        async with engine(breaks) as one, engine(answers) as other:
            async with serving(one.url) as server:
                answer = await raw(server, request(BODY, "/v1/x", headers=CLOSE))
                assert answer.startswith(b"HTTP/1.1 502 ")
            async with serving(one.url, other.url) as server:
                for _ in range(2):
                    answer = await raw(server, request(BODY, "/v1/x", headers=CLOSE))
                    assert rest(answer) == b"abcde"
        async with engine(breaks_later) as one, serving(one.url) as server:
            with pytest.raises(ConnectionError):
                answer = await raw(server, request(BODY, "/v1/x", headers=CLOSE))
                assert not answer.endswith(END)
                raise ConnectionError

    asyncio.run(story())


def test_a_stream_of_events_that_breaks_off_ends_with_an_error_event():
    async def story():
        async def breaks(number, head, body, writer):
            writer.write(EVENTS + framed(b"data: 1\n\n"))
            await writer.drain()
            return False

        async with engine(breaks) as one, serving(one.url) as server:
            answer = await raw(server, request(BODY, "/v1/responses", headers=CLOSE))
            assert b"data: 1\n\n" in answer
            assert b'data: {"error":' in answer
            assert answer.endswith(END)

    asyncio.run(story())


def test_a_client_that_leaves_leaves_nothing_behind():
    async def story():
        async def stalls(number, head, body, writer):
            return STALLS

        async with engine(stalls) as one, serving(one.url) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request(BODY, "/v1/x"))
            await until(lambda: one.asked)
            writer.close()
            await until(lambda: not server.gateway.front.passing)
            (backend,) = server.gateway.pools.all[0].backends.values()
            assert backend.passing == 0
            await until(lambda: not backend.endpoint.connections)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/v1/embeddings", {"model": "other"}, CLOSE, 404),
        ("/v1/load_lora_adapter", {}, CLOSE, 404),
        ("/metrics", {}, CLOSE, 404),
        ("/", {}, CLOSE, 404),
        ("/tokenize", {}, CLOSE, 200),
        ("/v2/embed", {}, CLOSE, 200),
        ("/v2/chat", {}, CLOSE, 404),
        ("/v1/audio/transcriptions", b"--x", "Connection: close\r\nContent-Type: multipart/form-data; boundary=x\r\n", 200),
        ("/v1/embeddings", b"\xff", CLOSE, 200),
        ("/v1/files/a%20b", {}, CLOSE, 200),
        ("/v1/%63ompletions", {}, CLOSE, 404),
        ("/v1/chat%2fcompletions", {}, CLOSE, 404),
        ("/v1/completions#x", {}, CLOSE, 404),
        ("/v1/completions/", {}, CLOSE, 404),
        ("/v1/x/../load_lora_adapter", {}, CLOSE, 404),
        ("/v1/%6Coad_lora_adapter", {}, CLOSE, 404),
        ("/v1/../metrics", {}, CLOSE, 404),
    ],
)
def test_which_paths_are_passed_on(path, body, headers, status):
    async def story():
        async def answers(number, head, body, writer):
            writer.write(whole(200, b"{}"))

        async with engine(answers) as one, serving(one.url) as server:
            answer = await raw(server, request(body, path, headers=headers))
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert len(one.asked) == (status == 200)

    asyncio.run(story())


@pytest.mark.parametrize("length", [b"Content-Length: 5\r\n", b""])
def test_the_answer_to_a_head_request_has_the_head_of_a_get_and_no_body(length):
    async def story():
        async def answers(number, head, body, writer):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nETag: a\r\n%b\r\n" % length)

        async with engine(answers) as one, serving(one.url) as server:
            for _ in range(2):
                answer = await raw(server, request(b"", "/v1/x", "HEAD", CLOSE))
                assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
                assert b"\r\nContent-Type: text/csv\r\n" in answer and b"\r\netag: a\r\n" in answer
                assert (length in answer) and answer.count(b"Content-Length") == len(length[:1])
                assert b"Transfer-Encoding" not in answer and rest(answer) == b""

    asyncio.run(story())


def test_an_engine_that_does_not_serve_the_model_is_replaced_and_the_last_one_is_believed():
    async def story():
        async def denies(number, head, body, writer):
            writer.write(whole(404, b'{"error":{"message":"The model `m` does not exist.","code":404}}'))

        async def answers(number, head, body, writer):
            writer.write(whole(200, b'{"data":[1]}'))

        async with engine(denies) as first, engine(answers) as second, engine(denies) as third:
            async with serving(first.url, second.url) as server:
                assert rest(await raw(server, request(BODY, "/v1/x", headers=CLOSE))) == b'{"data":[1]}'
            async with serving(first.url, third.url) as server:
                answer = await raw(server, request(BODY, "/v1/x", headers=CLOSE))
                assert answer.startswith(b"HTTP/1.1 404 ")

    asyncio.run(story())
