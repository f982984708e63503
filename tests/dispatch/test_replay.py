"""Replay: the same decisions from the log, in another process, and the first that another rule makes otherwise."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.dispatch.engines import Barrier, saturated
from tests.dispatch.storm import Storm
from tests.dispatch.test_core import small_trace
from tests.dispatch.told import Story
from tests.strategies import examples

from evenstep.dispatch import events as ev
from evenstep.dispatch.core import Dispatcher
from evenstep.dispatch.log.file import LogFile, part_of
from evenstep.dispatch.replay import replay
from evenstep.dispatch.settings import LoggedSettings, Settings
from evenstep.errors import InputError


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.evlog"
    trace, file = small_trace(200), LogFile(path, part_bytes=20_000)
    dispatcher = Dispatcher("br-h:horizon=6", predictor="survival", settings=Settings(ttl_s=1e9), log=file)
    saturated(Barrier(dispatcher, 4, 6, trace.prompt_tokens, trace.output_tokens), 200, 16)
    file.close()
    assert file.part > 0
    return path


@pytest.mark.slow
def test_a_log_replays_to_the_bit_in_a_fresh_process(log):
    done = subprocess.run(
        [sys.executable, "-m", "evenstep", "replay", str(log)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "every decision is the same" in done.stdout


def test_another_option_of_the_policy_shows_the_first_decision_that_differs(log):
    found = replay(log, policy="br-h:horizon=6,discount=0.3,candidates=2")
    assert found.is_changed and found.difference is not None and found.difference.what == "answer"
    assert found.difference.recorded.sent != found.difference.replayed.sent
    assert replay(log, policy="br-h:horizon=6").difference is None
    found = replay(log, policy="br-h:horizon=2")  # it sees less far, and decides the same for a while
    assert found.decisions > 1 and found.difference.what == "answer"
    assert found.difference.recorded.sent != found.difference.replayed.sent


def test_every_part_of_a_log_replays_by_itself(log):
    whole = replay(log).decisions
    counts = []
    part = 1
    while (place := part_of(log, part)).exists():
        found = replay(place)
        assert found.difference is None, (part, found.difference)
        counts.append(found.decisions)
        part += 1
    assert len(counts) > 1 and counts == sorted(counts, reverse=True) and counts[-1] > 0 and counts[0] < whole


@pytest.mark.parametrize("suffix", [".jsonl", ".evlog"])
def test_settings_that_earlier_versions_took_are_read(tmp_path, suffix):
    """`cooldown_cap_s: 0` and a seed beyond 2^53: the log's writer had no upper bound, and probed at once."""
    path = tmp_path / f"log{suffix}"
    wide, file = LoggedSettings(cooldown_cap_s=0.0, seed=1 << 60), LogFile(path)
    dispatcher = Dispatcher("random", settings=wide, log=file)
    dispatcher.handle(ev.Reloaded(now_s=0.0, settings=wide))
    saturated(Barrier(dispatcher, 2, 2, [3] * 20, [2] * 20), 20, 4)
    file.close()
    found = replay(path)
    assert found.difference is None and found.decisions > 0


def test_a_part_shows_what_another_rule_does_from_there_on(log):
    found = replay(part_of(log, 2), policy="br-h:horizon=6,discount=0.3,candidates=2")
    assert found.is_changed and found.difference is not None and found.difference.decision > 0
    assert replay(part_of(log, 2), policy="br-h:horizon=6").difference is None


@given(st.integers(0, 10_000), st.booleans())
@example(151, False)  # a part that begins in a round which least load decides
@examples(15, fast=6)
def test_any_storm_replays_from_any_part(tmp_path_factory, seed, split):
    path = tmp_path_factory.mktemp("storm") / "log.jsonl"
    file = LogFile(path, part_bytes=6_000, keep=2)
    storm = Storm(seed, split, log=file)
    for _ in range(60):
        storm.step()
    storm.calm()
    file.close()
    found = replay(path)
    assert found.difference is None and (file.part > 0 or found.decisions == storm.dispatcher.parts.deciding.decisions)
    assert replay(part_of(path, file.part)).difference is None


def test_a_part_whose_predictor_could_not_be_kept_says_so(tmp_path):
    path = tmp_path / "log.evlog"
    file = LogFile(path, part_bytes=1)
    story = Story("br-h:horizon=4", log=file)
    story.d.parts.deciding.predictor = object()
    story.worker("a")
    story.sent(1)
    file.close()
    with pytest.raises(InputError, match="begin with part 0"):
        replay(part_of(path, file.part))


@given(st.integers(0, 10_000), st.booleans())
@example(151, False)  # a part that begins in a round which least load decides
@examples(15, fast=6)
def test_any_storm_replays(tmp_path_factory, seed, split):
    path = tmp_path_factory.mktemp("storm") / "log.jsonl"
    file = LogFile(path)
    storm = Storm(seed, split, log=file)
    for _ in range(60):
        storm.step()
    storm.calm()
    file.close()
    found = replay(path)
    assert found.difference is None and found.decisions == storm.dispatcher.parts.deciding.decisions


def test_what_was_too_slow_then_is_too_slow_now(tmp_path):
    ticks = iter(range(10_000))
    file = LogFile(tmp_path / "log.evlog")
    story = Story(log=file, stopwatch=lambda: next(ticks), budget_ms=1.0)
    story.worker("a")
    story.sent(1)
    file.close()
    found = replay(tmp_path / "log.evlog")
    assert (found.difference, found.fallbacks, found.decisions) == (None, 1, 1)


def test_a_reload_that_was_refused_is_refused_again(tmp_path):
    file = LogFile(tmp_path / "log.jsonl")
    story = Story(log=file)
    story.worker("a")
    with pytest.raises(Exception, match="nosuch"):
        story.tell(ev.Reloaded, policy="nosuch")
    story.sent(1)
    file.close()
    assert replay(tmp_path / "log.jsonl").difference is None


def test_a_request_that_was_told_twice_is_in_the_log_once(tmp_path):
    file = LogFile(tmp_path / "log.jsonl")
    story = Story(log=file)
    story.worker("a")
    story.sent(1)
    with pytest.raises(RuntimeError, match="twice"):
        story.tell(ev.Arrived, request=1, prompt_tokens=5)
    story.sent(2)
    file.close()
    assert replay(tmp_path / "log.jsonl").difference is None


def test_no_text_of_a_prompt_can_be_in_a_log():
    """Events hold numbers, and names of workers, tenants and rules only."""
    texts = {
        (kind.__name__, field)
        for kind in ev.Event.__args__
        for field, hint in kind.__annotations__.items()
        if "str" in str(hint)
    }
    assert texts == {
        ("Arrived", "tenant"),
        ("Reloaded", "policy"),
        ("Reloaded", "predictor"),
        ("Sampled", "worker"),
        ("Sampling", "worker"),
        ("ScrapeFailed", "worker"),
        ("Probed", "worker"),
        ("WorkerRemoved", "worker"),
    }


def test_a_time_that_no_chunk_came_at_is_in_the_log_too(tmp_path):
    file = LogFile(tmp_path / "log.evlog")
    story = Story(log=file)
    story.worker("a")
    story.d.now_s = 5.0  # reads without a token, then an event that was stamped before them
    story.d.handle(ev.Arrived(now_s=4.0, request=1, prompt_tokens=3))
    story.d.handle(ev.Tick(now_s=4.5))
    file.close()
    found = replay(tmp_path / "log.evlog")
    assert found.decisions == 1 and found.difference is None
