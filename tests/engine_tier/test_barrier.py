"""A real barrier: our policy against round robin and join-shortest-queue, and the gateway's mirror against the engines' truth."""

from __future__ import annotations

import asyncio

import aiohttp
import numpy as np
import pytest
from tests.engine_tier.barrier import OURS, Judged, begin, even, itl_p95_s, mirrored, play, skewed
from tests.engine_tier.clients import Answer, ask, body

from evenstep.experiments.vocabulary import ratio

pytestmark = pytest.mark.engine
#: Rounds of ours and of join-shortest-queue, whose ties are chance, so that its rounds spread by some percent.
PAIRS = 4
EVEN_PAIRS = 2
#: Rounds in alternation: policy, gather_ms. Their number is fixed, so that no result decides how many are played.
ORDER = [*((policy, 2.0) for _ in range(PAIRS) for policy in (OURS, "jsq")), ("round-robin", 2.0), (OURS, 0.0)]


@pytest.fixture(scope="module")
def rounds(barrier) -> list[Judged]:
    """The skewed workload, once for each place of `ORDER`."""
    found = []
    for number, (policy, gather_ms) in enumerate(ORDER):
        found.append(play(barrier, skewed(), policy, gather_ms, number))
        print(found[-1].line())
    return found


def of(rounds: list[Judged], policy: str, gather_ms: float = 2.0) -> list[Judged]:
    return [found for found in rounds if (found.policy, found.gather_ms) == (policy, gather_ms)]


def mean(rounds: list[Judged], what: str) -> float:
    return float(np.mean([getattr(found, what) for found in rounds]))


#: Asked over join-shortest-queue.
ASKED = 1.08


def test_our_policy_makes_more_tokens_a_second_on_a_skewed_load(rounds):
    gain = ratio(*([one.tokens_per_s for one in of(rounds, policy)] for policy in (OURS, "jsq")))
    assert gain.value >= ASKED
    assert gain.low is not None and gain.low > 1.0
    assert mean(of(rounds, OURS), "tokens_per_s") >= 1.05 * mean(of(rounds, "round-robin"), "tokens_per_s")


def test_our_policy_waits_less_at_the_barrier(rounds):
    assert mean(of(rounds, OURS), "idle_share") < mean(of(rounds, "jsq"), "idle_share")


def test_nobody_waits_longer_between_tokens(rounds):
    """The tail of a round is some thirty steps, and who met whom in them is chance: it is taken over all rounds together."""
    assert itl_p95_s(of(rounds, OURS)) <= 1.1 * itl_p95_s(of(rounds, "jsq"))


def test_every_policy_gets_the_same_tokens(rounds):
    for found in rounds[1:]:
        assert found.ids == rounds[0].ids


def test_the_policies_decided_themselves(rounds):
    assert [found.fallbacks for found in rounds] == [0] * len(rounds)


def test_every_step_is_recorded_by_both_ranks(rounds):
    for found in rounds:
        assert found.steps.load.shape[1] == 2
        assert found.steps.alone == 0
        assert found.steps.produced.sum() == found.tokens
        # a request whose prompt a step did not finish is in the step and gets nothing of it
        assert (found.steps.produced <= found.steps.running).all()


def test_the_mirror_holds_what_the_engines_hold(rounds):
    for found in rounds:
        mirror = mirrored(found)
        assert mirror.off(found.steps).max() <= 0.01
        assert len(mirror.load) >= 0.9 * len(found.steps.load)


def test_idle_time_in_the_mirror_is_that_of_the_engines(rounds):
    for found in rounds:
        assert abs(mirrored(found).idle_share - found.idle_share) <= 0.02


def test_nothing_is_lost_where_there_is_nothing_to_gain(barrier):
    """One pair of rounds differs by up to 2 %: where answers end within a step is chance."""
    order = [policy for _ in range(EVEN_PAIRS) for policy in (OURS, "jsq")]
    found = [play(barrier, even(), policy, 2.0, 100 + number) for number, policy in enumerate(order)]
    print("even prompts", *(one.line() for one in found), sep="\n")
    ours, others = (mean(of(found, policy), "tokens_per_s") for policy in (OURS, "jsq"))
    assert abs(ours / others - 1.0) <= 0.02


def test_a_barrier_group_dies_as_one_and_no_stream_goes_on_at_a_peer(barrier, rounds):
    """The last test: without one of its ranks the group is gone, and there is no other."""
    asked = skewed()[:6]
    gateway = begin(barrier, "jsq", 2.0, 200)
    questions = [("completions", body("completions", one.prompt, 200, stream=True)) for one in asked]
    answers = asyncio.run(cut_off(gateway.url, questions, barrier.workers[1].kill))
    for answer, whole in zip(answers, rounds[0].ids, strict=False):
        assert answer.error and not answer.is_done
        assert 10 <= len(answer.ids) < 200
        both = min(len(answer.ids), len(whole))
        assert answer.ids[:both] == whole[:both]


async def cut_off(url: str, questions: list, kill) -> list[Answer]:
    """Ask all at once, and kill when each has ten tokens."""
    ready: set[int] = set()

    async def told(answer: Answer) -> None:
        if len(answer.ids) >= 10 and id(answer) not in ready:
            ready.add(id(answer))
            if len(ready) == len(questions):
                kill()

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=300)) as session:
        return await asyncio.gather(*[ask(session, url, kind, asked, told) for kind, asked in questions])
