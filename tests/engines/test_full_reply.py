"""Streams read in full, and the shorter ways beside that: the same for any stream in any pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import chunk_streams, examples, pieces, usual_streams

from evenstep.engines.streams.full_reply import FullReply
from evenstep.engines.streams.reply import ReplyStream
from evenstep.engines.streams.template_cache import TemplateCache
from evenstep.engines.view import Dialect, UsageOptions

ALL = UsageOptions(usage=True, continuous=True, token_ids=True)


@examples(100)
@given(
    st.one_of(usual_streams(), chunk_streams()), st.sampled_from([UsageOptions(), UsageOptions(usage=True), ALL]), st.data()
)
def test_what_is_read_in_full_is_read_the_same_in_shorter_ways(stream, client, data):
    templates, sent = TemplateCache(), b"".join(stream.events(ALL))
    for _ in range(2):  # the second time as the first one taught
        parts, found = data.draw(pieces(sent)), []
        for kind in (FullReply, ReplyStream):
            reply = kind(
                Dialect(),
                chat=stream.chat,
                client=client,
                engine=ALL,
                choices=stream.choices,
                keep=stream.choices == 1,
                templates=templates,
            )
            out = b"".join([reply.feed(part) for part in parts]) + reply.end()
            kept = reply.so_far() if stream.choices == 1 else None
            found.append((out, reply.produced, reply.prompt_tokens, reply.done, reply.estimated, kept))
        assert found[0] == found[1]
