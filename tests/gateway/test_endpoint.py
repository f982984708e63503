"""An engine's address: connections that have nothing to do are used again, or kept by whoever has use for them."""

from __future__ import annotations

import asyncio

from tests.gateway.running import engine, whole
from tests.gateway.test_engine import HEAD, Asked

from evenstep.gateway.endpoint import Endpoint
from evenstep.gateway.sections import Engines


class Keeps:
    """Takes so many connections."""

    def __init__(self, most):
        self.most, self.kept = most, []

    def keep(self, connection, endpoint):
        if len(self.kept) == self.most:
            return False
        self.kept.append((connection, endpoint))
        return True


async def ask(endpoint):
    leg = Asked()
    endpoint.send(leg, (HEAD, b""), 5.0)
    await leg.over.wait()
    return leg.heard


def test_a_connection_that_somebody_keeps_is_used_no_more():
    async def story():
        async def answers(number, head, body, writer):
            writer.write(whole(200, b"ab"))

        async with engine(answers) as one:
            endpoint = Endpoint(one.url, Engines(), asyncio.get_running_loop())
            endpoint.keeper = keeps = Keeps(2)
            for _ in range(5):
                assert await ask(endpoint) == [200, b"ab", "ended"]
            assert [of for _, of in keeps.kept] == [endpoint] * 2
            assert len(endpoint.connections) == 3
            endpoint.close()

    asyncio.run(story())


def test_an_address_is_read_as_urls_are():
    async def story():
        endpoint = Endpoint("http://[::1]:81/v/", Engines(), asyncio.get_running_loop())
        assert (endpoint.authority, endpoint.base, endpoint.is_tls) == ("[::1]:81", "/v", False)
        assert Endpoint("https://h", Engines(), asyncio.get_running_loop()).authority == "h:443"

    asyncio.run(story())
