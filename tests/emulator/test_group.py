"""Stories of a group: given these events, exactly these actions; storms; and the same steps as the simulator's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracles.cluster import simulate_reference
from tests.strategies import emulator_storms

from evenstep import names
from evenstep.cost.linear import Linear
from evenstep.cost.per_worker import PerWorker
from evenstep.cost.unequal import Unequal
from evenstep.emulator import tokens
from evenstep.emulator.group import (
    Arrived,
    Cancelled,
    Due,
    Fetched,
    Group,
    Killed,
    Lost,
    Produced,
    Pulled,
    Revived,
    Wake,
)
from evenstep.emulator.rank import Sequence
from evenstep.emulator.settings import EmulatorSettings
from evenstep.request import Trace
from evenstep.sim.cluster.simulation import Cluster
from evenstep.sim.engine.simulation import Engine, simulate_engine

LAW = Linear(overhead_s=1.0, per_token_s=0.5)


FREE = {"token_budget": 0, "prefill_per_token_s": 0.0, "mean_output_tokens": 0.0}


def is_empty(group):
    """Whether no sequence waits, runs, fetches KV or has a lease."""
    return not (group._live or group._leases or any(rank.memory.used for rank in group.ranks))


def group(ranks=2, blocks=32, law=LAW, first=0, **more):
    settings = EmulatorSettings(**{**FREE, "slots": 2, "block_size": 4, "kv_tokens": 4 * blocks, **more})
    return Group(settings, law, ranks, first)


def work(key, prompt, max_tokens, **more):
    return Sequence(key=key, prompt=prompt, max_tokens=max_tokens, **more)


def shown(actions):
    """Actions without the token ids, which no story depends on."""
    return [("token", a.key, a.finish) if isinstance(a, Produced) else a for a in actions]


def drive(one, until=10_000):
    """Every action from now until the group sleeps, as (time, action)."""
    found, at = [], one._wake_s
    for _ in range(until):
        if at == float("inf"):
            return found
        actions = one.handle(Due(), at)
        one.check()
        found += [(at, action) for action in actions]
        at = next((a.at_s for a in actions if isinstance(a, Wake)), float("inf"))
    raise AssertionError("it never sleeps")


def test_a_request_wakes_an_idle_group_and_its_tokens_come_at_the_ends_of_steps():
    one = group()
    assert one.handle(Arrived(work(7, 3, 2), rank=1), 10.0) == [Wake(10.0)]
    assert one.handle(Due(), 10.0) == [Wake(10.0 + 1.0 + 1.5)]
    assert shown(one.handle(Due(), 12.5)) == [("token", 7, None), Wake(12.5 + 1.0 + 2.0)]
    assert shown(one.handle(Due(), 15.5)) == [("token", 7, "length")]
    assert is_empty(one)


def test_a_step_lasts_as_long_as_that_of_the_heaviest_rank_and_is_the_same_for_all():
    one = group()
    one.handle(Arrived(work(1, 3, 9), rank=0), 0.0)
    one.handle(Arrived(work(2, 20, 9), rank=1), 0.0)
    assert one.handle(Due(), 0.0) == [Wake(1.0 + 10.0)]
    assert shown(one.handle(Due(), 11.0))[:2] == [("token", 1, None), ("token", 2, None)]
    assert [rank.counts.busy_s for rank in one.ranks] == [1.5 + 2.0, 10.0 + 10.5]


def test_a_group_that_is_about_to_start_a_step_is_woken_once():
    one = group()
    assert (one.steps, one.step_s, one.stepped_s) == (0, 0.0, 0.0)
    assert one.handle(Arrived(work(1, 3, 9), rank=0), 4.0) == [Wake(4.0)]
    assert one.handle(Arrived(work(2, 3, 9), rank=1), 4.0) == []


def test_what_arrives_during_a_step_joins_the_next():
    one = group()
    one.handle(Arrived(work(1, 2, 5), rank=0), 0.0)
    one.handle(Due(), 0.0)
    assert one.handle(Arrived(work(2, 4, 1), rank=1), 0.5) == []
    assert shown(one.handle(Due(), 2.0)) == [("token", 1, None), Wake(2.0 + 1.0 + 2.0)]
    assert shown(one.handle(Due(), 5.0))[:2] == [("token", 1, None), ("token", 2, "length")]


def test_a_due_that_is_not_the_last_one_wished_for_does_nothing():
    one = group()
    one.handle(Arrived(work(1, 2, 5), rank=0), 0.0)
    one.handle(Due(), 0.0)
    assert one.handle(Due(), 1.0) == []


def test_prompt_tokens_add_their_seconds_to_the_rank_that_computes_them():
    one = group(prefill_per_token_s=0.25, token_budget=8)
    one.handle(Arrived(work(1, 12, 2), rank=0), 0.0)
    assert one.handle(Due(), 0.0) == [Wake(1.0 + 8 * 0.5 + 8 * 0.25)]
    assert one.handle(Due(), 7.0) == [Wake(7.0 + 1.0 + 12 * 0.5 + 4 * 0.25)]


def test_decoded_tokens_add_their_seconds_and_prompt_tokens_theirs():
    one = group(prefill_per_token_s=0.25, decode_per_token_s=0.125, token_budget=8)
    one.handle(Arrived(work(1, 4, 3), rank=0), 0.0)
    assert one.handle(Due(), 0.0) == [Wake(1.0 + 4 * 0.5 + 4 * 0.25)]
    one.handle(Arrived(work(2, 2, 1), rank=0), 1.0)
    assert one.handle(Due(), 4.0)[-1] == Wake(4.0 + 1.0 + 7 * 0.5 + 2 * 0.25 + 0.125)


def test_a_law_that_differs_by_rank_sees_the_number_of_the_rank_in_the_fleet():
    law = PerWorker(speed=(1.0, 1.0, 0.5, 0.25), overhead_s=1.0, per_token_s=0.5)
    one = group(first=2, law=law)
    one.handle(Arrived(work(1, 4, 2), rank=1), 0.0)
    assert one.handle(Due(), 0.0) == [Wake(1.0 + 4 * 0.5 / 0.25)]


def test_a_cancelled_request_leaves_at_once_and_produces_nothing_more():
    one = group()
    one.handle(Arrived(work(1, 2, 5), rank=0), 0.0)
    one.handle(Arrived(work(2, 2, 5), rank=0), 0.0)
    one.handle(Due(), 0.0)
    assert one.handle(Cancelled(1), 0.5) == []
    assert one.ranks[0].memory.used == 1
    assert shown(one.handle(Due(), 3.0))[0] == ("token", 2, None)
    assert one.handle(Cancelled(99), 3.5) == []
    assert one.ranks[0].counts.finished == {"stop": 0, "length": 0, "abort": 1, "error": 0}


def test_the_same_prompt_gives_the_same_answer_and_a_continuation_goes_on_with_it():
    ids = np.array(tokens.tokenise("a prompt that is continued"))

    def answer(prompt, count):
        one = group()
        one.handle(Arrived(work(1, prompt.size, count, state=tokens.state_of(prompt)), 0), 0.0)
        return [action.token for _, action in drive(one) if isinstance(action, Produced)]

    whole = answer(ids, 30)
    assert len(set(whole)) > 20
    for cut in (1, 7, 29):
        assert answer(np.concatenate([ids, whole[:cut]]), 30 - cut) == whole[cut:]


def test_eviction_changes_the_time_of_tokens_and_not_the_tokens():
    def answers(blocks):
        one = group(ranks=1, blocks=blocks)
        for key in (1, 2):
            one.handle(Arrived(work(key, 6, 12, state=key), 0), 0.0)
        found = drive(one)
        by_key = {k: [a.token for _, a in found if isinstance(a, Produced) and a.key == k] for k in (1, 2)}
        return by_key, one.ranks[0].counts.evictions

    roomy, none = answers(32)
    tight, some = answers(6)
    assert tight == roomy
    assert none == 0
    assert some > 0


def test_an_answer_ends_after_each_token_with_a_chance_of_one_over_the_mean():
    """Of 400 answers with a mean of 4 tokens, 100 end with the first, and 400 x 0.75^8 = 40 have more than eight."""
    one = group(ranks=1, slots=400, blocks=800, mean_output_tokens=4.0)
    for key in range(400):
        one.handle(Arrived(work(key, 1, 9, state=tokens.drawn(key), ends=True), 0), 0.0)
    lengths = np.bincount([a.key for _, a in drive(one) if isinstance(a, Produced)])
    assert abs((lengths == 1).sum() - 100) < 30
    assert abs((lengths == 9).sum() - 40) < 20


@pytest.mark.slow
def test_answers_end_by_themselves_as_often_as_said_unless_told_not_to():
    def lengths(**more):
        one = group(ranks=1, slots=500, blocks=5000, mean_output_tokens=20.0)
        for key in range(300):
            one.handle(Arrived(work(key, 4, 200, state=tokens.drawn(key), ends=True, **more), 0), 0.0)
        ends = [a for _, a in drive(one) if isinstance(a, Produced)]
        counts = [sum(a.key == key for a in ends) for key in range(300)]
        return np.array(counts), {a.finish for a in ends if a.finish}

    counts, finishes = lengths()
    assert finishes == {"stop"}
    assert 17 < counts.mean() < 23
    assert lengths(min_tokens=30)[0].min() > 30


def test_a_stop_id_ends_an_answer():
    one = group()
    one.handle(Arrived(work(1, 4, 40, state=5), 0), 0.0)
    third = [a.token for _, a in drive(one) if isinstance(a, Produced)][2]
    one.handle(Arrived(work(2, 4, 40, state=5, stop_ids=frozenset({third})), 0), 1000.0)
    assert [a.finish for _, a in drive(one) if isinstance(a, Produced)] == [None, None, "stop"]


def test_a_prefilled_prompt_keeps_its_blocks_until_it_is_pulled():
    one = group()
    one.handle(Arrived(work(1, 8, 1, leased=True), 0), 0.0)
    drive(one)
    assert one.ranks[0].memory.used == 2
    assert one.leased(1).prompt == 8
    assert one.handle(Pulled(1), 20.0) == []
    assert is_empty(one)


def test_a_lease_that_nobody_uses_runs_out_and_is_counted():
    one = group(lease_s=30.0)
    one.handle(Arrived(work(1, 8, 1, leased=True), 0), 0.0)
    ended = drive(one)[-1][0]
    one.expire(ended + 29.9)
    assert one.ranks[0].memory.used == 2
    one.expire(ended + 30.0)
    assert is_empty(one)
    assert one.ranks[0].counts.expired_leases == 1


def test_the_leases_of_a_dead_rank_are_gone_and_those_of_others_stay():
    """Its memory is empty again at once: a lease that gave its blocks back later would give them twice."""
    one = group(lease_s=30.0)
    for key in (0, 1):
        one.handle(Arrived(work(key, 8, 1, leased=True), key), 0.0)
    ended = drive(one)[-1][0]
    assert one.handle(Killed(0), ended) == []
    one.check()
    assert one.leased(0) is None and one.leased(1).prompt == 8
    one.handle(Pulled(0), ended)
    one.expire(ended + 30.0)
    one.check()
    assert [rank.counts.expired_leases for rank in one.ranks] == [0, 1]
    assert [rank.memory.available for rank in one.ranks] == [32, 32]


def test_a_dead_rank_produces_nothing_more_of_the_step_it_died_in():
    one = group()
    for key in (0, 1):
        one.handle(Arrived(work(key, 4, 3), key), 0.0)
    one.handle(Due(), 0.0)
    one.handle(Killed(0), 1.0)
    one.handle(Revived(0), 1.5)
    assert one.handle(Arrived(work(2, 4, 3), 0), 1.5) == []
    assert shown(one.handle(Due(), 3.0)) == [("token", 1, None), Wake(3.0 + 1.0 + 2.5)]
    assert [rank.counts.produced_tokens for rank in one.ranks] == [0, 1]


def block_without_a_holder(one):
    one.ranks[0].memory.take(1)


def in_two_places(one):
    one.ranks[1].waiting.append(one.ranks[0].running[0])


def in_no_place(one):
    one.ranks[0].running.clear()


def lease_without_blocks(one):
    one._leases[2][0].private -= 1


@pytest.mark.parametrize("harm", [block_without_a_holder, in_two_places, in_no_place, lease_without_blocks])
def test_the_check_that_storms_rely_on_sees_what_is_wrong(harm):
    one = group()
    one.handle(Arrived(work(1, 8, 9), 0), 0.0)
    one.handle(Arrived(work(2, 8, 1, leased=True), 0), 0.0)
    one.handle(Due(), 0.0)
    one.handle(Due(), one._wake_s)
    one.check()
    harm(one)
    with pytest.raises(RuntimeError):
        one.check()


def test_what_waits_for_leased_memory_is_woken_when_the_lease_ends():
    one = group(blocks=2, lease_s=30.0)
    one.handle(Arrived(work(1, 8, 1, leased=True), 0), 0.0)
    one.handle(Arrived(work(2, 8, 1), 0), 0.0)
    found = [(at, a.key) for at, a in drive(one) if isinstance(a, Produced)]
    assert found == [(5.0, 1), (5.0 + 30.0 + 5.0, 2)]


def test_a_request_whose_kv_is_elsewhere_starts_when_it_is_fetched():
    one = group(prefill_per_token_s=0.25)
    assert one.handle(Arrived(work(1, 8, 2), 0, awaits=True), 0.0) == []
    assert one.awaiting(0) == 1
    assert one.handle(Fetched(1, found=True), 3.0) == [Wake(3.0)]
    assert one.handle(Due(), 3.0) == [Wake(3.0 + 1.0 + 4.0 + 0.25)]


def test_kv_that_cannot_be_had_loses_the_request():
    one = group()
    one.handle(Arrived(work(1, 8, 2), 0, awaits=True), 0.0)
    assert one.handle(Fetched(1, found=False), 3.0) == [Lost(1, "kv")]
    assert one.ranks[0].counts.finished == {"stop": 0, "length": 0, "abort": 0, "error": 1}
    assert is_empty(one)


def test_kv_for_a_request_that_was_cancelled_meanwhile_is_ignored():
    one = group()
    one.handle(Arrived(work(1, 8, 2), 0, awaits=True), 0.0)
    one.handle(Cancelled(1), 1.0)
    assert one.handle(Fetched(1, found=True), 3.0) == []


def test_a_dead_rank_loses_all_it_has_while_the_other_goes_on_and_revives_empty():
    one = group()
    for key, rank in ((1, 0), (2, 0), (3, 0), (4, 1)):
        one.handle(Arrived(work(key, 4, 3), rank), 0.0)
    one.handle(Due(), 0.0)
    assert one.handle(Killed(0), 1.0) == [Lost(1, "dead"), Lost(2, "dead"), Lost(3, "dead")]
    assert one.handle(Arrived(work(5, 4, 3), 0), 1.5) == [Lost(5, "dead")]
    assert shown(one.handle(Due(), 5.0))[0] == ("token", 4, None)
    one.handle(Revived(0), 5.5)
    one.handle(Arrived(work(6, 4, 1), 0), 5.5)
    assert ("token", 6, "length") in shown([a for _, a in drive(one)])
    assert is_empty(one)


@given(emulator_storms())
def test_in_any_storm_no_token_is_lost_or_doubled_and_nothing_is_left_behind(storm):
    one, now_s = Group(storm.settings, LAW, storm.settings.ranks), 0.0
    produced, wanted, ended = {}, {}, {}
    wake = None

    def act(actions):
        nonlocal wake
        for action in actions:
            if isinstance(action, Wake):
                wake = action.at_s
            elif isinstance(action, Lost):
                assert ended.setdefault(action.key, "lost") == "lost"
            else:
                assert action.key not in ended
                produced.setdefault(action.key, []).append(action.token)
                if action.finish is not None:
                    ended[action.key] = action.finish

    def due():
        nonlocal wake, now_s
        now_s, wake = wake, None
        act(one.handle(Due(), now_s))

    for event in storm.events:
        now_s += 0.25
        if event is None:
            if wake is not None:
                due()
        else:
            if isinstance(event, Arrived):
                wanted[event.sequence.key] = (event.sequence.prompt, event.sequence.max_tokens)
            if isinstance(event, Cancelled) and event.key in wanted:
                ended.setdefault(event.key, "cancelled")
            act(one.handle(event, now_s))
        one.check()
    for key in list(one._awaiting):
        act(one.handle(Fetched(key, found=True), now_s))
    for _ in range(2000):
        if wake is None:
            break
        due()
        one.check()
    one.expire(now_s + 1000.0)
    assert is_empty(one)
    assert set(ended) == set(wanted)
    for key, (prompt, most) in wanted.items():
        if ended[key] == "length":
            assert len(produced[key]) == most
        state = prompt
        for token in produced.get(key, []):
            assert token == tokens.word(tokens.drawn(state))
            state = tokens.after(state, token)


@given(st.integers(0, 1000), st.sampled_from([(4,), (2, 2)]), st.sampled_from([None, 0.5]))
def test_its_steps_are_those_of_the_simulator_for_the_same_requests_and_the_same_law(seed, sizes, share):
    rng = np.random.default_rng(seed)
    count = 20
    trace = Trace(
        name="small",
        prompt_tokens=rng.integers(1, 40, count),
        output_tokens=rng.integers(1, 9, count),
        arrival_s=np.sort(rng.integers(0, 60, count)).astype(np.float64),
    )
    law = Linear(overhead_s=0.75, per_token_s=0.125)
    if share is not None:
        law = Unequal(share=share, overhead_s=0.75, per_token_s=0.125)
    cluster = Cluster(workers=4, slots=2, groups=sizes, arrivals="timed", dispatch="instant", queue_depth=-1)
    run = simulate_reference(trace, names.build("routing", {"name": "jsq"}), cluster=cluster, step_time=law)
    placed = dict(zip(run.requests.request_id.tolist(), run.requests.worker.tolist(), strict=True))
    for number, size in enumerate(sizes):
        first = sum(sizes[:number])
        one = group(size, blocks=10_000, law=law)
        steps, wake = [], None
        arrivals = [i for i in range(count) if first <= placed[i] < first + size]
        while arrivals or wake is not None:
            at = trace.arrival_s[arrivals[0]] if arrivals else np.inf
            if wake is not None and wake < at:
                actions, start = one.handle(Due(), wake), wake
                wake = None
            else:
                i = arrivals.pop(0)
                sequence = work(i, int(trace.prompt_tokens[i]), int(trace.output_tokens[i]))
                actions, start = one.handle(Arrived(sequence, placed[i] - first), at), None
            for action in actions:
                if isinstance(action, Wake):
                    wake = action.at_s
                    if start is not None:
                        steps.append((start, one.step_s))
        mine = run.steps.group == number
        expected = list(zip(run.steps.start_s[mine], run.steps.duration_s[mine], strict=True))
        assert steps == expected


@pytest.mark.parametrize("law", ["profile:path=rtx4090-llama31-8b", "token-budget:c-s=0.5,a-s=0.25,b0=8", "long-context"])
def test_under_a_batch_time_law_its_steps_are_those_of_the_engine_simulator(law):
    rng = np.random.default_rng(4)
    trace = Trace(
        prompt_tokens=rng.integers(1, 60, 14), output_tokens=rng.integers(1, 9, 14), arrival_s=np.zeros(14), name="14"
    )
    engine = Engine(kv_tokens=4000, block_tokens=4, token_budget=24, batch_limit=4, overhead_s=0.125)
    policy, built = names.build("scheduling", {"name": "vllm"}), names.build("batch", names.parse(law))
    expected = simulate_engine(trace, policy, engine=engine, batch_time=built).iterations.seconds
    one = group(1, blocks=1000, slots=4, token_budget=24, batch_time=law, overhead_s=0.125)
    for i in range(14):
        one.handle(Arrived(work(i, int(trace.prompt_tokens[i]), int(trace.output_tokens[i])), 0), 0.0)
    steps, at = list[float](), [0.0]
    while at:
        at = [action.at_s for action in one.handle(Due(), at[0]) if isinstance(action, Wake)]
        steps += [one.step_s] if at else []
    assert steps == expected.tolist()


@pytest.mark.parametrize(
    ("ends", "min_tokens", "tokens_of", "finish"), [(True, 0, 1, "stop"), (True, 3, 4, "stop"), (False, 0, 9, "length")]
)
def test_a_model_that_would_end_at_once_ends_where_it_may(ends, min_tokens, tokens_of, finish):
    one = group(mean_output_tokens=1.0)
    one.handle(Arrived(work(1, 2, 9, state=7, ends=ends, min_tokens=min_tokens), 0), 0.0)
    produced = [action for _, action in drive(one) if isinstance(action, Produced)]
    assert [action.finish for action in produced] == [None] * (tokens_of - 1) + [finish]
    assert (produced[-1].token == tokens.END) is (finish == "stop")


def test_steps_and_tokens_and_the_time_of_each_rank_are_counted():
    one = group(batch_time="token-budget:c-s=0.5,a-s=0.25,b0=8", overhead_s=0.125, token_budget=0)
    one.handle(Arrived(work(1, 16, 3), 0), 0.0)
    drive(one)
    first, idle = one.ranks[0].counts, one.ranks[1].counts
    assert (one.steps, first.produced_tokens, idle.produced_tokens) == (3, 3, 0)
    assert first.finished == {"stop": 0, "length": 1, "abort": 0, "error": 0}
    assert one.stepped_s == pytest.approx((0.125 + 0.5 + 0.25 * (16 - 8)) + 2 * (0.125 + 0.5))
    assert first.busy_s == pytest.approx(one.stepped_s)
    assert idle.busy_s == pytest.approx(3 * (0.125 + 0.5)), "a rank without requests runs a dummy token"
