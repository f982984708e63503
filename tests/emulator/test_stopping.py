from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evenstep.emulator.stopping import Stopping

LETTERS = st.text("ab", max_size=4)


@given(st.lists(LETTERS, max_size=8), st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3))
def test_what_is_shown_is_the_text_up_to_the_first_stop(pieces, stops):
    watched, shown, found = Stopping(tuple(stops)), "", None
    fed = ""
    for piece in pieces:
        fed += piece
        text, found = watched.feed(piece)
        shown += text
        if found is not None:
            break
    if found is None:
        assert shown + watched.rest() == fed
        assert not any(stop in fed for stop in stops)
    else:
        assert fed.startswith(shown + found)
        assert not any(stop in shown for stop in stops)


def test_what_may_become_a_stop_is_held_back():
    watched = Stopping(("END",))
    assert watched.feed("the E") == ("the ", None)
    assert watched.feed("N") == ("", None)
    assert watched.feed("ough") == ("ENough", None)
    assert watched.feed(" END more") == (" ", "END")


def test_the_stop_that_ends_first_wins_and_of_equal_ones_the_first_in_the_list():
    assert Stopping(("b dok", "d")).feed("bab dok") == ("bab ", "d")
    assert Stopping(("ok", "dok")).feed("bab dok") == ("bab d", "ok")


@given(
    st.lists(LETTERS, max_size=8),
    st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(0, 8),
)
def test_a_stop_that_ends_before_the_least_length_is_text(pieces, stops, least):
    watched, shown, found, fed = Stopping(tuple(stops)), "", None, ""
    free = len("".join(pieces[:least]))
    for place, piece in enumerate(pieces):
        text, found = watched.feed(piece, place >= least)
        shown, fed = shown + text, fed + piece
        ends = [at for at in range(free + 1, len(fed) + 1) if any(fed[:at].endswith(stop) for stop in stops)]
        assert (found is None) == (not ends)
        if found is not None:
            assert shown + found == fed[: ends[0]]
            return
    assert shown + watched.rest() == fed
