"""The dispatcher's commands to its host, carried out in order before the next event.

A host that carries out `Abort` detaches the stream at once: later data of that stream never reaches the dispatcher as a
chunk. Forwarding bytes needs no command: chunks of the current decode leg go to the client as they come.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class SendPrefill(msgspec.Struct, frozen=True, gc=False):
    """Send the prefill leg to this prefiller. Tell its end as `PrefillDone` or `Failed` with the same `leg`.

    Args:
        request: the host's number of the request.
        leg: number of this upstream call, unique in the dispatcher.
        worker: name of the prefiller.
    """

    request: int
    leg: int
    worker: str


class SendDecode(msgspec.Struct, frozen=True, gc=False):
    """Send the request to this worker; after a prefill, with the prefiller's hand-over.

    Args:
        request: the host's number of the request.
        leg: number of this upstream call, to be given back in `Finished` or `Failed`.
        worker: name of the worker.
        row: the row to pass to `Dispatcher.produced` for its chunks.
    """

    request: int
    leg: int
    worker: str
    row: int


class Continue(msgspec.Struct, frozen=True, gc=False):
    """Continue a stream on this worker. Prompt and tokens produced so far are the new prompt; the client sees one stream.

    Args:
        request, leg, worker, row: as in `SendDecode`.
        produced: tokens that the client already has; the host lowers `max_tokens` by as many.
    """

    request: int
    leg: int
    worker: str
    row: int
    produced: int


class Abort(msgspec.Struct, frozen=True, gc=False):
    """Close the upstream call `leg` of the request at this worker, in any state; no event is expected for it.

    The request itself may go on: another command says how it ends or where it continues.
    """

    request: int
    leg: int
    worker: str


#: Why a stream that has begun cannot go on.
Broken: TypeAlias = Literal["failed", "expired", "overdue", "cannot-continue"]


class Release(msgspec.Struct, frozen=True, gc=False):
    """Let the prefiller `worker` drop the request's KV, because it is not needed there any more; no answer is expected."""

    request: int
    worker: str


class Reject(msgspec.Struct, frozen=True, gc=False):
    """Answer with a status: no token has reached the client. The request is over.

    Args:
        status: 400, 429, 502, 503 or 504; 0 = pass the engine's own answer on (a client's fault, as the engine says). A host
            that knows more may answer with another one; it reports the status that it answered with to
            `Dispatcher.rejected`.
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
    """End a stream of which the client has tokens with an error event, because it cannot go on. The request is over.

    Reasons are as in `Reject`: ``failed``, ``expired``, ``overdue`` and ``cannot-continue``.
    """

    request: int
    reason: Broken


class Probe(msgspec.Struct, frozen=True, gc=False):
    """Ask an ejected worker for its health, and tell the answer as `Probed`. Without an answer it is repeated after 5 s."""

    worker: str


class WakeAt(msgspec.Struct, frozen=True, gc=False):
    """Send a `Tick` at `at_s`, on the clock of the events, at the latest; a time up to now means after the reads at hand.

    It replaces the `WakeAt` before it. Ticks that come earlier do not cancel it.
    """

    at_s: float


class Removed(msgspec.Struct, frozen=True, gc=False):
    """A leaving worker has no requests left, and the dispatcher has forgotten it; the host forgets it, too."""

    worker: str


class Notice(msgspec.Struct, frozen=True, gc=False):
    """A message for the operator, given at most once a minute for each kind and subject.

    Args:
        kind: ``fallback``, ``policy-off``, ``foreign``, ``divergence``, ``disagreement``, ``ejected``, ``recovered``,
            ``last-healthy``.
        about: name of the worker; of a ``fallback`` its reason (`rounds.fallback.Reason`); of ``policy-off`` the policy.
        text: one sentence without a full stop.
    """

    kind: str
    about: str
    text: str


Command: TypeAlias = (
    SendPrefill | SendDecode | Continue | Abort | Release | Reject | Fail | Probe | WakeAt | Removed | Notice
)
