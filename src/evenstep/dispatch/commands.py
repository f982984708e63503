"""Commands of the dispatcher to its host, which carries them out in order before the next event.

After an `Abort` the host detaches that stream at once: later data of it never reaches the dispatcher as a chunk. Forwarding
bytes needs no command: chunks of the current decode call go to the client as they come.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class SendPrefill(msgspec.Struct, frozen=True, gc=False):
    """Ask the prefiller `worker` to compute the request's prompt; report the call's end as `PrefillDone` or `Failed`."""

    request: int  # the host's number of the request
    leg: int  # number of this upstream call, unique in the dispatcher; the events about it repeat it
    worker: str


class SendDecode(msgspec.Struct, frozen=True, gc=False):
    """Send the request to `worker`, which generates the answer; after a prefill, together with the prefiller's hand-over."""

    request: int  # the host's number of the request
    leg: int  # number of this upstream call; `Finished` and `Failed` repeat it
    worker: str
    row: int  # the request's row, to pass to `Dispatcher.produced` with each of its chunks


class Continue(msgspec.Struct, frozen=True, gc=False):
    """Continue a begun stream on `worker`: prompt and output so far are the new prompt. The client sees one stream.

    The client already has `produced` tokens; the host lowers `max_tokens` by as many. The other fields are as in
    `SendDecode`.
    """

    request: int
    leg: int
    worker: str
    row: int
    produced: int


class Abort(msgspec.Struct, frozen=True, gc=False):
    """Close the request's upstream call `leg` at `worker`; send no event about it. The request itself may go on.

    If the call was a prefill that has just ended, forget its hand-over.
    """

    request: int
    leg: int
    worker: str


#: Why a stream that has begun cannot go on.
Broken: TypeAlias = Literal["failed", "expired", "overdue", "cannot-continue"]


class Release(msgspec.Struct, frozen=True, gc=False):
    """Tell the prefiller `worker` to free the request's KV, and forget its hand-over; no event is expected.

    It comes when the KV is no longer needed, or when the prefiller is removed at once. In the second case a call under way
    may still fetch it.
    """

    request: int
    worker: str


class Reject(msgspec.Struct, frozen=True, gc=False):
    """Answer the client with an HTTP status; it has not received a token. The request is over.

    Args:
        status: 400, 429, 502, 503 or 504; 0 = pass on the engine's own answer, which blames the client. A host that knows
            more may answer with another status. It reports the status it used to `Dispatcher.rejected`.
        reason: one of ``pool-full``, ``tenant-limit``, ``rate-limit``, ``too-long`` (prompt above any worker's KV memory),
            ``too-wide`` (copies above any worker's slots), ``expired`` (`ttl_s`), ``overdue`` (`total_s`), ``draining``,
            ``failed``, ``no-worker``, ``cannot-continue``, ``client``.
        retry_after_s: whole seconds for the header Retry-After, 0 = leave the header out.
    """

    request: int
    status: int
    reason: str
    retry_after_s: int = 0


class Fail(msgspec.Struct, frozen=True, gc=False):
    """Send the client an error event and end its stream, which has begun and cannot go on. The request is over.

    If the host already holds the rest of the answer, it sends that instead, and calls `Dispatcher.completed`.
    """

    request: int
    reason: Broken


class Probe(msgspec.Struct, frozen=True, gc=False):
    """Check an ejected worker's health, and report it as `Probed`. It is repeated every 5 s until then or its removal."""

    worker: str


class WakeAt(msgspec.Struct, frozen=True, gc=False):
    """Send a `Tick` at `at_s`, seconds on the clock of the events; if that is past, after the current reads.

    The tick may come early by less than 1 s. A `WakeAt` replaces the one before it; a `Tick` for another reason does not
    cancel it.
    """

    at_s: float


class Removed(msgspec.Struct, frozen=True, gc=False):
    """Forget this worker: it was leaving and has no requests left. The dispatcher has forgotten it, too."""

    worker: str


class Notice(msgspec.Struct, frozen=True, gc=False):
    """Tell the operator something, at most once a minute for each `kind` and `about`; anew for a worker that was removed."""

    #: ``fallback``, ``policy-off``, ``foreign``, ``divergence``, ``disagreement``, ``ejected``, ``recovered``,
    #: ``last-healthy``
    kind: str
    about: str  # name of the worker; for ``fallback`` the reason (`rounds.fallback.Reason`); for ``policy-off`` the policy
    text: str  # one sentence without a full stop


Command: TypeAlias = (
    SendPrefill | SendDecode | Continue | Abort | Release | Reject | Fail | Probe | WakeAt | Removed | Notice
)
