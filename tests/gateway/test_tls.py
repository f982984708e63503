"""TLS contexts are made of files that fit, and follow them at a reload."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.gateway.test_engine import HEAD, Asked

if sys.platform != "win32":
    import pty

from evenstep import sockets
from evenstep.errors import EngineError, InputError
from evenstep.gateway.config.sections import Engines, Tls
from evenstep.gateway.connections.engine import Endpoint
from evenstep.gateway.connections.pages import Pages
from evenstep.gateway.connections.tls import client_context, load_certificate, server_context

FILES = Path(__file__).parent / "certificates"
SERVER = Tls(str(FILES / "server.pem"), str(FILES / "server.key"))


async def shown(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """Common name of the certificate that a new connection sees."""
    listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=server)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
        peer = writer.get_extra_info("peercert")
        writer.close()
        return dict(part[0] for part in peer["subject"])["commonName"]


def test_a_listener_shows_its_certificate_and_after_a_reload_the_new_one(tmp_path):
    for suffix in ("pem", "key"):
        shutil.copy(FILES / f"server.{suffix}", tmp_path / f"now.{suffix}")
    tls = Tls(str(tmp_path / "now.pem"), str(tmp_path / "now.key"))
    server = server_context(tls, "listen.tls")
    client = client_context(Engines(ca=str(FILES / "ca.pem")))
    assert asyncio.run(shown(server, client)) == "server"
    for suffix in ("pem", "key"):
        shutil.copy(FILES / f"other.{suffix}", tmp_path / f"now.{suffix}")
    load_certificate(server, tls, "listen.tls")
    assert asyncio.run(shown(server, client)) == "other"
    (tmp_path / "now.key").write_text("nonsense")
    with pytest.raises(InputError):
        load_certificate(server, tls, "listen.tls")
    assert asyncio.run(shown(server, client)) == "other"


def test_certificate_and_key_may_be_one_file(tmp_path):
    one = tmp_path / "one.pem"
    one.write_text((FILES / "server.key").read_text() + (FILES / "server.pem").read_text())
    client = client_context(Engines(ca=str(FILES / "ca.pem")))
    assert asyncio.run(shown(server_context(Tls(str(one)), "listen.tls"), client)) == "server"


def test_a_client_that_would_rather_speak_http_2_is_told_that_it_is_http_1_1():
    async def spoken() -> str | None:
        context = server_context(SERVER, "listen.tls")
        client = client_context(Engines(ca=str(FILES / "ca.pem")))
        client.set_alpn_protocols(["h2", "http/1.1"])
        listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
            writer.close()
            return writer.get_extra_info("ssl_object").selected_alpn_protocol()

    assert asyncio.run(spoken()) == "http/1.1"


def test_an_engine_whose_authority_is_unknown_is_not_spoken_to():
    server = server_context(SERVER, "listen.tls")
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(shown(server, client_context(Engines())))
    careless = client_context(Engines(verify=False))
    assert careless.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(
    ("tls", "said"),
    [
        (Tls("/no/such.pem"), "listen.tls: certificate is '/no/such.pem'; expected readable PEM files"),
        (Tls(str(FILES / "server.pem"), str(FILES / "other.key")), "expected PEM files that fit"),
        (
            Tls(str(FILES / "server.pem"), str(FILES / "server.key"), "/no/such.pem"),
            "client_ca is '/no/such.pem'",
        ),
        (Tls(str(FILES / "server.pem"), str(FILES / "server.key"), str(FILES / "server.key")), "client_ca"),
    ],
)
def test_files_that_do_not_fit_are_refused_by_name(tls, said):
    with pytest.raises(InputError, match=said):
        server_context(tls, "listen.tls")


def test_a_file_of_authorities_must_hold_one():
    with pytest.raises(InputError, match="engines: ca is"):
        client_context(Engines(ca=str(FILES / "server.key")))


def test_clients_can_be_made_to_show_a_certificate():
    context = server_context(Tls(SERVER.certificate, SERVER.key, str(FILES / "ca.pem")), "listen.tls")
    assert context.verify_mode == ssl.CERT_REQUIRED


def test_an_authority_that_joins_the_file_is_trusted_after_a_reload(tmp_path):
    authorities = tmp_path / "clients.pem"
    shutil.copy(FILES / "other.pem", authorities)
    tls = replace(SERVER, client_ca=str(authorities))
    server = server_context(tls, "listen.tls")
    assert server.cert_store_stats()["x509"] == 1
    authorities.write_text("nonsense")
    with pytest.raises(InputError, match="client_ca is"):
        load_certificate(server, tls, "listen.tls")
    shutil.copy(FILES / "ca.pem", authorities)
    load_certificate(server, tls, "listen.tls")
    assert [dict(part[0] for part in ca["subject"])["commonName"] for ca in server.get_ca_certs()] == [
        "evenstep test authority"
    ]


def test_why_the_certificate_of_an_engine_is_refused_is_told():
    async def story() -> None:
        listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=server_context(SERVER, "listen.tls"))
        async with listening:
            url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}/metrics"
            with pytest.raises(EngineError, match=r"SSLCertVerificationError, .*certificate"):
                await Pages(Engines()).read(url)

    asyncio.run(story())


def test_an_engine_that_asks_for_a_certificate_is_shown_one():
    async def page(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup")
        writer.close()

    async def story() -> None:
        strict = server_context(replace(SERVER, client_ca=str(FILES / "ca.pem")), "listen.tls")
        listening = await asyncio.start_server(page, "127.0.0.1", 0, ssl=strict)
        async with listening:
            url = f"https://localhost:{listening.sockets[0].getsockname()[1]}/metrics"
            trusting = Engines(ca=str(FILES / "ca.pem"))
            with pytest.raises(EngineError):
                await Pages(trusting).read(url)
            showing = replace(trusting, client_certificate=SERVER.certificate, client_key=SERVER.key)
            assert await Pages(showing).read(url) == b"up"

    asyncio.run(story())


@pytest.mark.parametrize("files", [{"client_certificate": SERVER.certificate}, {"client_key": SERVER.key}])
def test_a_certificate_for_engines_needs_its_key(files):
    with pytest.raises(InputError, match="engines: client_certificate is"):
        client_context(Engines(**files))


def answer_once(listening: socket.socket, says_that_it_ended: bool) -> None:
    """Answer one request with a body without a length, and close the connection with or without TLS's closing alert."""
    with server_context(SERVER, "listen.tls").wrap_socket(listening.accept()[0], server_side=True) as engine:
        engine.recv(1000)
        engine.sendall(b"HTTP/1.1 200 OK\r\n\r\nit")
        if says_that_it_ended:
            with contextlib.suppress(OSError):  # the reader may leave without an alert of its own
                engine.unwrap()


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, sockets.loop_factory()])
def test_a_body_without_a_length_is_whole_only_if_tls_says_that_it_ended(loop_factory):
    async def page(says_that_it_ended: bool) -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            answering = asyncio.create_task(asyncio.to_thread(answer_once, listening, says_that_it_ended))
            url = f"https://localhost:{listening.getsockname()[1]}/metrics"
            try:
                return await Pages(Engines(ca=str(FILES / "ca.pem"))).read(url)
            finally:
                await answering

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(page(True)) == b"it"
        with pytest.raises(EngineError, match="closed the connection before its answer was complete"):
            runner.run(page(False))


class Pausing(Asked):
    """A leg whose client reads the beginning of the body and no more."""

    def __init__(self):
        super().__init__()
        self.paused = threading.Event()

    def body(self, data: bytes) -> None:
        super().body(data)
        if not self.paused.is_set():
            self.connection.pause()
            self.paused.set()


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, sockets.loop_factory()])
def test_a_body_that_tls_cut_off_while_its_client_was_slow_is_not_whole(loop_factory):
    def answer(listening: socket.socket, leg: Pausing) -> None:
        with server_context(SERVER, "listen.tls").wrap_socket(listening.accept()[0], server_side=True) as engine:
            engine.recv(1000)
            engine.sendall(b"HTTP/1.1 200 OK\r\n\r\nit")
            leg.paused.wait()
            engine.sendall(50_000 * b"x")

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            loop, engines, leg = asyncio.get_running_loop(), Engines(ca=str(FILES / "ca.pem")), Pausing()
            answering = asyncio.create_task(asyncio.to_thread(answer, listening, leg))
            endpoint = Endpoint(f"https://localhost:{listening.getsockname()[1]}", engines, loop, client_context(engines))
            endpoint.send(leg, (HEAD, b""), 60.0)
            await answering
            await asyncio.sleep(0.1)  # the end comes in during the pause
            if leg.connection is not None:
                leg.connection.resume(time.monotonic() + 60.0)
            await leg.over.wait()
            assert leg.heard[-1] == "stream"

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(story())


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked_for_it():
    code = (
        "from evenstep.gateway.config.sections import Tls; from evenstep.gateway.connections.tls import server_context; "
        f"server_context(Tls({SERVER.certificate!r}, {str(FILES / 'locked.key')!r}), 'listen.tls')"
    )
    child, terminal = pty.fork()
    if not child:
        os.execv(sys.executable, [sys.executable, "-c", code])
    said = b""
    with contextlib.suppress(OSError):  # the terminal closes with the child
        while b"pass phrase" not in said and (more := os.read(terminal, 4096)):
            said += more
    os.close(terminal)
    os.waitpid(child, 0)
    assert b"listen.tls: certificate is" in said and b"expected PEM files that fit" in said.replace(b"\r\n", b"")
