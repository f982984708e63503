"""What a connection and the service that answers it hand each other."""

from __future__ import annotations

import asyncio

from tests.gateway.running import engine, request, serving, whole

from evenstep.gateway.config.config import GatewayConfig
from evenstep.gateway.connections.callers import Callers
from evenstep.gateway.connections.request_context import context_of
from evenstep.gateway.connections.service import Received
from evenstep.http.head import read_request_head


def test_a_request_is_served_from_what_was_received():
    async def story():
        async def answers(number, head, body, writer):
            writer.write(whole(404, b"{}"))

        async with engine(answers) as one, serving(one.url) as server:
            front = server.gateway.front
            head = request({}, path="/healthz", method="GET").partition(b"{")[0]
            context = context_of(read_request_head(head), Callers(GatewayConfig()), ())
            heard = []

            class Asks:
                def reply(self, status, body, kind):
                    heard.append((status, body, kind))

            front.serve(Received(context, b"", "name"), Asks())
            assert heard == [(200, b"ok", b"text/plain; charset=utf-8")]

    asyncio.run(story())
