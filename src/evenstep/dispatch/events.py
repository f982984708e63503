"""Events that the host gives to the dispatcher: small frozen values, stamped with the host's time.

Chunks are not events: they are calls of `Dispatcher.produced(row, tokens)`. `request` is the host's number of a request;
numbers grow and are never reused. `leg` is the number that the dispatcher gave to an upstream call. If it is not the
request's current call, the event is ignored and counted as late. An event about an unknown worker is ignored, unless it is
`WorkerAdded`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from evenstep.dispatch.settings import LoggedSettings, WorkerSpec

#: Why a leg failed. ``connect``: no connection could be made. ``status``: a status that is not the request's fault (3xx,
#: 5xx, 408, 421, 425, 429, a key of ours, a model that is not served), or an invalid answer. ``stream``: it broke off, even
#: before its first byte, or was garbage. ``stall``: silence beyond a deadline. ``stale``: a reused connection ended at
#: once, without a byte; it may have been closed before the request. ``client``: any other 4xx. ``recomputed``: the engine
#: stopped the request so that it is continued elsewhere, or is the last healthy one and has an error that a prefiller's
#: hand-over may have caused. ``unable``: the engine cannot continue this request, or the host has too many open files for a
#: connection, so the call was not sent; or the engine refused the call, because it does not serve a model that only other
#: engines list, or has no such path.
Kind: TypeAlias = Literal["connect", "status", "stream", "stall", "stale", "client", "recomputed", "unable"]


def _kebab(name: str) -> str:
    """A class name in kebab case: ``worker-added`` for ``WorkerAdded``."""
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")


class Base(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=_kebab, omit_defaults=True, gc=False):
    """The base of all events. In a decision log the field ``event`` holds the class name in kebab case.

    `now_s` is the host's time, seconds on any clock that never goes back.
    """

    now_s: float


class Arrived(Base, frozen=True):
    """A client's request was parsed; the dispatcher admits it, or refuses it with a `Reject`."""

    request: int  # the host's number of the request, larger than all before it
    prompt_tokens: int  # KV tokens at admission, 1 or more; an estimate until the engine reports them
    tenant: str = ""  # the tenant to charge; limits are per tenant
    request_class: int = 0  # class as policies see it
    key: int = 0  # salted hash of the prompt, 0 = unknown; predictors remember prompts by it
    session: int = 0  # salted hash of session, user or task, 0 = none; used by policies that pin sessions
    task: int = 0  # salted hash of the agent task that it is a call of, 0 = none; see `Settings.order`
    priority: float = 0.0  # the smallest is sent first; ignored where the order of the pool is ``fcfs``
    max_tokens: int = 0  # most output tokens of each answer, as the client says, 0 = no limit
    expected_tokens: int = 0  # output tokens of each answer that the client expects, 0 = unknown
    #: answers that the engine computes for it (`n` or `best_of`, summed over its prompts), 1 or more; each takes a slot
    copies: int = 1
    #: whether another engine can continue its stream exactly, after the first token; ignored with copies
    can_continue: bool = True
    #: salted hashes of the prompt's blocks in order; each covers the prompt up to the end of its block
    blocks: tuple[int, ...] = ()
    #: empty = check the tenant's limits now; hosts leave it so. A decision log has the verdict, for its replay: ``in``, or
    #: the reason of the refusal.
    judged: Literal["", "in", "tenant-limit", "rate-limit"] = ""
    retry_after_s: int = 0  # Retry-After in seconds, where `judged` is a refusal


class PromptCounted(Base, frozen=True):
    """An engine reported the request's true number of prompt tokens. With 0, or after the request's end, nothing changes."""

    request: int
    prompt_tokens: int


class PrefillDone(Base, frozen=True):
    """The prefill call answered; the request now waits in the pool. `prompt_tokens`: the prefiller's count, 0 = unknown."""

    request: int
    leg: int
    prompt_tokens: int = 0


class Finished(Base, frozen=True):
    """The decode call ended correctly, with a finish reason."""

    request: int
    leg: int
    prompt_tokens: int = 0  # prompt tokens as the engine counted them, if not reported before; 0 = not reported
    #: output tokens, over all copies, of an answer that came whole; 0 if its chunks were counted by `Dispatcher.produced`
    output_tokens: int = 0


class Failed(Base, frozen=True):
    """A prefill or decode call (a leg) failed. The request is retried or continued, mostly elsewhere, or it ends."""

    request: int
    leg: int
    kind: Kind  # why it failed, see `Kind`
    retry_after_s: float = 0.0  # the engine's Retry-After in seconds; 0 = no such header
    is_counted: bool = True  # whether the failure may count against the engine


class ClientGone(Base, frozen=True):
    """End a request without an answer, as its client left; `Abort` closes its call. An unknown one only counts as late."""

    request: int


class Sampling(Base, frozen=True):
    """A worker's metrics are about to be read. Send it just before the read whose result comes as `Sampled`."""

    worker: str


class Sampled(Base, frozen=True):
    """A worker's own metrics were read."""

    worker: str  # its name
    running: int  # requests that run there, by its own count, those of other senders included
    waiting: int  # requests that wait there, counted in the same way
    kv_used: float  # share of its KV memory in use, 0..1
    kv_tokens: int = 0  # KV capacity in tokens that the worker states, 0 = not stated
    slots: int = 0  # most requests it runs at a time, as it states, 0 = not stated; only compared with the configured slots
    prefix_queried: int = -1  # prompt tokens it looked up in its prefix cache since it started; -1 = not stated
    prefix_hit: int = -1  # prompt tokens it found there since it started; -1 = not stated


class ScrapeFailed(Base, frozen=True):
    """A worker's metrics could not be read.

    A `scraped` prefiller counts as full until its next `Sampled`. Nothing changes for a worker that decodes.
    """

    worker: str


class Probed(Base, frozen=True):
    """Result of a worker's health check, made for a `Probe` or by the host itself; `ok`: the worker is healthy.

    An ejected worker that is healthy gets requests again. An unhealthy one is ejected if another of its role is up.
    """

    worker: str
    ok: bool


class WorkerAdded(Base, frozen=True):
    """A worker joined the fleet. A known one gets the new `spec`, and stops leaving. InputError if its role differs."""

    spec: WorkerSpec


class WorkerRemoved(Base, frozen=True):
    """Remove a worker: it gets nothing new. The command `Removed` follows once it has no requests left.

    With `drain` its requests finish there; else their calls are aborted, and they go on elsewhere (`Failed`), or end.
    """

    worker: str
    drain: bool = True


class Tick(Base, frozen=True):
    """The time is `now_s`: decide due rounds, end requests past a deadline, retry requests, and probe ejected workers.

    Send it at the time of the last `WakeAt`. Send it, too, if `Dispatcher.due` is true once all socket reads at hand are
    handled.
    """


class Reloaded(Base, frozen=True):
    """Use another policy, predictor or settings, or other numbers of classes; a field that is left out changes nothing."""

    policy: str = ""  # ``NAME[:key=value,...]``
    predictor: str = ""  # ``NAME[:key=value,...]``
    settings: LoggedSettings | None = None  # all limits and deadlines; what they leave out gets its default value
    #: the new number of each class of requests, from class 1 on; 0 = there is no such class any more
    classes: tuple[int, ...] = ()


class Fitted(Base, frozen=True):
    """The host ran the fit that was due (`Dispatcher.fit`). `ok`: its models are used from now on; else they are dropped."""

    ok: bool = True


class Draining(Base, frozen=True):
    """The host is about to stop: from now on new requests get a 503, accepted ones finish. It cannot be undone."""


_OfRequests: TypeAlias = Arrived | PromptCounted | PrefillDone | Finished | Failed | ClientGone
_OfWorkers: TypeAlias = Sampling | Sampled | ScrapeFailed | Probed | WorkerAdded | WorkerRemoved
Event: TypeAlias = _OfRequests | _OfWorkers | Tick | Reloaded | Fitted | Draining
