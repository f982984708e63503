"""The clock of tests that jumps."""

import asyncio
import time

from tests import clock


def test_an_hour_goes_by_at_once_and_timers_keep_their_order():
    async def story():
        told = []
        for name, delay_s in (("late", 3600.0), ("soon", 0.5), ("sooner", 0.25)):
            asyncio.get_running_loop().call_later(delay_s, told.append, name)
        start_s = time.monotonic()
        await asyncio.sleep(3600.5)
        return told, time.monotonic() - start_s

    began_s = time.perf_counter()
    told, gone_s = clock.run(story())
    assert told == ["sooner", "soon", "late"] and 3600.5 <= gone_s < 3600.6
    assert time.perf_counter() - began_s < 60
