"""Settings of a dispatcher and of its workers: plain values, checked once."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias, cast, get_args

import msgspec

from evenstep.errors import MOST, InputError, check_known, check_range, check_range_if_given

#: The order of the pool.
Order: TypeAlias = Literal["fcfs", "priority", "oldest-task", "least-attained"]
#: A prefiller with a larger share of its KV memory in use than this takes no new prompt (BalanceRoute sec. 5).
PREFILL_THRESHOLD = 0.9
#: Shortest block of a prompt, bytes: each is hashed and looked up.
LEAST_BLOCK_BYTES = 64
#: Fields of `Settings` that are 0 or more.
_NOT_NEGATIVE = (
    *("gather_ms", "stale_s", "policy_cooldown_s", "backoff_s", "backoff_cap_s", "cooldown_s", "total_s"),
    *("gateways", "retries", "bypass_margin", "pool_window", "round_slots", "window_per_slot", "kv_reserve"),
)


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one tenant, over all models together; 0 = no limit.

    Args:
        concurrent: requests that wait or run at the same time.
        waiting: requests that wait at the same time.
        per_s: mean rate of admitted requests a second (a token bucket of size `burst`).
        burst: requests that may come at once; 0 = as many as in one second, at least 1.
    """

    concurrent: int = 0
    waiting: int = 0
    per_s: float = 0.0
    burst: int = 0


class TenantLimits(Tenant, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of a `Tenant` in a dispatcher's settings. When they are encoded, fields with their default are left out."""


class WorkerSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One worker, as its operator describes it.

    Args:
        name: unique in the fleet, not empty.
        group: barrier group; workers of equal text share a barrier. Empty = a group of its own.
        slots: requests the worker runs at a time, 1 or more.
        kv_tokens: KV capacity in tokens, 0 = as its metrics report it, else unlimited (a prefiller: 100,000).
        role: ``decode`` (also: prefills and decodes) or ``prefill``.
        speed: how fast it decodes compared with the other workers, above 0; 2 = half the step seconds for each KV token.
        scraped: whether its metrics are read; until the first reading such a worker counts as full.

    Raises:
        InputError: a value out of range.
    """

    name: str
    group: str = ""
    slots: int = 256
    kv_tokens: int = 0
    role: Literal["decode", "prefill"] = "decode"
    speed: float = 1.0
    scraped: bool = True

    def __post_init__(self) -> None:
        where = f"worker {self.name}"
        if not self.name:
            raise InputError("worker", "name", self.name, "a name")
        check_range(where, "an integer >= 1", low=1, slots=self.slots)
        check_range(where, "an integer >= 0", "0 means as its metrics say.", low=0, kv_tokens=self.kv_tokens)
        check_range(where, "a number above 0", above=0, finite=True, speed=self.speed)


class Dispatch(msgspec.Struct, frozen=True, kw_only=True):
    """How requests wait, are decided on, and are retried, as the section of a gateway's config says it.

    Args:
        gather_ms: longest that an open round waits for the rest of its barrier group; 0 = decide at once, as the papers do.
        ttl_s: longest wait in the pool, or for a prefiller, from entering that queue on. Then the request ends: with 503, or
            with an error event if its stream has begun.
        pool_limit: requests that may wait, in the pool and for a prefiller together; beyond it new requests get 503.
        stale_s: age of a shared worker's metrics page above which rounds fall back to least load. Left out = three times
            engines.scrape_s plus engines.scrape_timeout_s.
        budget_ms: processor time a policy may take for one decision; an answer that took longer is not used.
        policy_cooldown_s: seconds after a fault of the policy or its predictor until it is asked again.
        gateways: how many gateways send to the same engines, including this one. Until the next reading of an engine's
            metrics, each takes its part of the slots that a reading shows free. 0 = 2 where a reading shows requests that
            this gateway did not send, else 1.
        retries: most retries of a request. They go to engines that have not failed it, if there are any; to any with room if
            an engine handed it back without a new token.
        total_s: longest time from a request's arrival to the end of its answer, running streams included; 0 = no limit.
        backoff_s: seconds before the first retry, doubled for each further one.
        backoff_cap_s: longest such wait; an engine's longer Retry-After counts up to 5 s.
        breaker_failures: failures in a row after which a worker is ejected.
        cooldown_s: seconds before an ejected worker is probed, doubled after each bad probe.
        cooldown_cap_s: longest such wait, above 0.
        kv_reserve: KV tokens kept free for the growth of each request on a worker. Left out = a running request's mean
            remaining output, estimated from the lengths of completed requests.
        bypass_margin: slots beyond its own that a worker's requests may take, for a policy with bypass=True.
        prefix_blocks: prompt blocks remembered for each worker at most, for policies that look at prefix caches.
        prefix_block_bytes: bytes of each of a prompt's first 64 blocks; a later block has eight times as many.
        pool_window: most waiting requests that a round looks at: the first, with a part for every class; 0 = all.
        window_per_slot: most requests a round looks at for each slot of the fleet, at least 8 in all; 0 = no bound. Without
            a bound a policy could pass over large requests until all that wait are large.
        round_slots: most free slots that one round offers; the next rounds offer the rest; 0 = all.
        order: the order of the pool. ``fcfs``: by arrival. ``priority``: the smallest priority of a client first.
            ``oldest-task``: by priority, then by the first call of the request's task. ``least-attained``: by priority, then
            by the tokens of its task's ended calls.
        seed: key of every random draw.
    """

    #: Settings that have another name now.
    RENAMED: ClassVar[dict[str, str]] = {"good_rounds": "policy_cooldown_s, in seconds: rounds come as often as requests do"}

    gather_ms: float = 2.0
    ttl_s: float = 60.0
    pool_limit: int = 4096
    stale_s: float | None = None
    budget_ms: float = 20.0
    policy_cooldown_s: float = 1.0
    gateways: int = 0
    retries: int = 3
    total_s: float = 3600.0
    backoff_s: float = 0.05
    backoff_cap_s: float = 1.0
    breaker_failures: int = 3
    cooldown_s: float = 1.0
    cooldown_cap_s: float = 30.0
    kv_reserve: float | None = None
    bypass_margin: int = 2
    prefix_blocks: int = 65_536
    prefix_block_bytes: int = 256
    pool_window: int = 1024
    window_per_slot: float = 0.75
    round_slots: int = 32
    order: Order = "fcfs"
    seed: int = 0


class Settings(Dispatch, frozen=True, kw_only=True, omit_defaults=True):
    """Limits and deadlines of a dispatcher: those of `Dispatch`, and the limits of its tenants.

    Args:
        stale_s: age in seconds of a shared worker's metrics page above which rounds fall back to least load.
        tenants: limits by tenant; ``*`` stands for those not listed.

    Raises:
        InputError: a value out of range.
    """

    stale_s: float = 4.5
    tenants: dict[str, TenantLimits] = {}

    def __post_init__(self) -> None:
        for field in _NOT_NEGATIVE:
            check = check_range_if_given if field == "kv_reserve" else check_range
            check("dispatch", "a number >= 0", low=0, finite=True, **{field: getattr(self, field)})
        for field in ("pool_limit", "breaker_failures", "prefix_blocks"):
            check_range("dispatch", "an integer >= 1", low=1, **{field: getattr(self, field)})
        check_range("dispatch", f"an integer >= {-MOST}", low=-MOST, seed=self.seed)
        least = LEAST_BLOCK_BYTES
        check_range("dispatch", f"an integer >= {least}", low=least, prefix_block_bytes=self.prefix_block_bytes)
        check_known("dispatch", "order", self.order, get_args(Order))
        for field in ("ttl_s", "budget_ms", "cooldown_cap_s"):
            check_range("dispatch", "a finite number above 0", above=0, finite=True, **{field: getattr(self, field)})
        for name, limits in self.tenants.items():
            where, hint = f"tenants.{name}", "0 = no limit."
            check_range(where, "a number >= 0", hint, low=0, finite=True, **msgspec.structs.asdict(limits))


class LoggedSettings(Settings, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a dispatcher as its log has them. Their ranges are not checked: earlier versions took more."""

    def __post_init__(self) -> None:
        pass


def to_log(settings: Settings) -> LoggedSettings:
    """The same settings, as fields of records are typed: a log is written as it is, and read without checks of ranges."""
    return cast("LoggedSettings", settings)
