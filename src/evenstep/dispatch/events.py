"""What a host tells the dispatcher: one small frozen value an event, stamped with the host's time.

Chunks are no events: they are `Dispatcher.produced(row, tokens)`, two ints. `request` is the host's running number of a
request, never used twice and larger for later ones; `leg` is the number the dispatcher gave the upstream call that an event
is about. An event of a leg that is no longer the request's own is dropped, and counted as late.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from evenstep.dispatch.settings import Settings, WorkerSpec

#: Why a leg failed. ``connect``: refused, reset or unreachable before anything was read. ``status``: 5xx, 3xx or an
#: answer that is none. ``stream``: it broke off or was garbage. ``stall``: silence beyond a deadline. ``stale``: a
#: connection that had been used before was reset at once, without a byte: it may have been closed before it was asked.
#: ``client``: the engine says that the request is wrong (4xx). ``recomputed``: the engine stopped the request so that it
#: is continued elsewhere. ``unable``: it was not asked, since it is known that it cannot continue this request.
Kind: TypeAlias = Literal["connect", "status", "stream", "stall", "stale", "client", "recomputed", "unable"]


def _kebab(name: str) -> str:
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in name).lstrip("-")


class Base(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=_kebab, omit_defaults=True, gc=False
):
    """Every event.

    Args:
        now_s: the host's time, seconds on any clock that never goes back.
    """

    now_s: float


class Arrived(Base, frozen=True):
    """A client's request was read and may be served.

    Args:
        request: the host's number of it.
        prompt_tokens: KV tokens at admission; an estimate until the engine tells.
        tenant: who pays; limits are per tenant.
        request_class: class as policies see it.
        key: salted hash of the prompt, 0 = unknown; what predictors remember prompts by.
        session: salted hash of session, user or task, 0 = none; what pinning policies look at.
        max_tokens: cap of the client, 0 = none.
        expected_tokens: output tokens the client expects, 0 = unknown.
        copies: answers asked for (`n`, `best_of`): slots it takes, and tails that grow on one prompt.
        can_continue: whether its stream can be joined exactly on another engine after the first token.
        blocks: salted hashes of the prompt's blocks in order, each of its whole prefix.
        judged: what the limits of its tenant, which hold over all models, said of it: ``in``, or why it is turned away; a
            decision log has it. Empty = they are asked now.
        retry_after_s: what the client of a request that they turned away is told.
    """

    request: int
    prompt_tokens: int
    tenant: str = ""
    request_class: int = 0
    key: int = 0
    session: int = 0
    max_tokens: int = 0
    expected_tokens: int = 0
    copies: int = 1
    can_continue: bool = True
    blocks: tuple[int, ...] = ()
    judged: Literal["", "in", "tenant-limit", "rate-limit"] = ""
    retry_after_s: int = 0


class PromptCounted(Base, frozen=True):
    """An engine told how many tokens the prompt really has."""

    request: int
    prompt_tokens: int


class PrefillDone(Base, frozen=True):
    """The prefill leg answered; the host keeps what the engine said for the decode leg.

    Args:
        prompt_tokens: as the prefiller counted, 0 = it did not say.
    """

    request: int
    leg: int
    prompt_tokens: int = 0


class Finished(Base, frozen=True):
    """The decode leg ended as it should, with a reason to finish.

    Args:
        prompt_tokens: as the engine counted, where it had not told before; 0 = it did not say.
        output_tokens: of an answer that came whole, of all its copies together; 0 for one whose chunks were told.
    """

    request: int
    leg: int
    prompt_tokens: int = 0
    output_tokens: int = 0


class Failed(Base, frozen=True):
    """A leg ended as it should not.

    Args:
        kind: see `Kind`.
        retry_after_s: what the engine asked for, seconds; 0 = nothing.
    """

    request: int
    leg: int
    kind: Kind
    retry_after_s: float = 0.0


class ClientGone(Base, frozen=True):
    """The client left, at whatever stage."""

    request: int


class Sampling(Base, frozen=True):
    """A worker's own metrics are about to be read: what is sent there or ends there from now on may or may not be among
    what its `Sampled` shows."""

    worker: str


class Sampled(Base, frozen=True):
    """A worker's own metrics were read.

    Args:
        worker: its name.
        running, waiting: requests it says it runs and holds.
        kv_used: share of its KV memory in use, 0..1.
        kv_tokens: capacity in tokens as it says, 0 = it does not.
        slots: requests it runs at most as it says, 0 = it does not.
        prefix_queried, prefix_hit: prompt tokens it looked up in its prefix cache, and found there, since it started;
            -1 = it does not say.
    """

    worker: str
    running: int
    waiting: int
    kv_used: float
    kv_tokens: int = 0
    slots: int = 0
    prefix_queried: int = -1
    prefix_hit: int = -1


class ScrapeFailed(Base, frozen=True):
    """A worker's metrics could not be read."""

    worker: str


class Probed(Base, frozen=True):
    """A worker's health was asked for, because of a `Probe` or by the host's own habit."""

    worker: str
    ok: bool


class WorkerAdded(Base, frozen=True):
    """A worker joined the fleet, or came back from being drained."""

    spec: WorkerSpec


class WorkerRemoved(Base, frozen=True):
    """A worker leaves.

    Args:
        drain: let what runs there end; otherwise it goes on elsewhere at once.
    """

    worker: str
    drain: bool = True


class Tick(Base, frozen=True):
    """Time passed, or a batch of reads is done; due rounds and deadlines are looked at."""


class Reloaded(Base, frozen=True):
    """New rules. What is left out stays as it is.

    Args:
        policy, predictor: ``NAME[:key=value,...]``.
        settings: limits, deadlines and so on.
    """

    policy: str = ""
    predictor: str = ""
    settings: Settings | None = None


class Fitted(Base, frozen=True):
    """The fit that is due (`Dispatcher.fit`) was made.

    Args:
        ok: it may be put in; otherwise it failed, and what there is stays until the next one.
    """

    ok: bool = True


class Draining(Base, frozen=True):
    """The host is about to stop: nothing new is accepted, what is accepted ends."""


Event: TypeAlias = (
    Arrived | PromptCounted | PrefillDone | Finished | Failed | ClientGone | Sampling | Sampled | ScrapeFailed | Probed
    | WorkerAdded | WorkerRemoved | Tick | Reloaded | Fitted | Draining
)  # fmt: skip
