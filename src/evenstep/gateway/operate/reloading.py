"""Applies a new config to a running gateway.

File, keys, certificates, policy and workers are checked before anything changes; a config that fails these checks changes
nothing. Settings that a running process cannot change keep their values, and are named in the answer.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from evenstep.config.layers import Settled
from evenstep.errors import EvenstepError, InputError
from evenstep.gateway.config.config import GatewayConfig, checked, refused_as, value_at
from evenstep.gateway.config.layers import Sources, placed
from evenstep.gateway.config.secrets import digest_of
from evenstep.gateway.config.sections import Tls
from evenstep.gateway.connections.callers import Callers
from evenstep.gateway.connections.tls import client_context, load_certificate, server_context
from evenstep.gateway.operate.compiling import begins_plain, build_or_warm, compile_beside
from evenstep.gateway.operate.control import ControlProxy
from evenstep.gateway.operate.kept_kernels import is_compiled
from evenstep.gateway.operate.membership import CONFIG, Membership

_log = logging.getLogger("evenstep.gateway.operate.reloading")
#: Sections that keep their values until a restart.
_FIXED = ("listen", "admin", "discovery", "decisions", "tokenizers", "traces")
_REFUSED = "config refused, nothing has changed"
#: A TLS context, its files, and the config section that names them.
_Context: TypeAlias = tuple[ssl.SSLContext, Tls, str]


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The result of a reload."""

    #: dotted settings whose new values are in use; of ``engines``, ``scrape_...`` apply at once, those of TLS to new
    #: connections, the others to new endpoints
    changed: list[str]
    joined: list[str]  # names of workers that are new or have changed
    left: list[str]  # names of workers that leave
    needs_restart: list[str]  # dotted settings whose new values are not used before a restart


class Reloader:
    """Holds the config in force and changes it. Use it on the event loop of the operation thread.

    Args:
        sources: read at every reload.
        settled: the config at the start.
        proxy: calls the gateway.
        membership: the gateway's workers.
        heard: functions to call, on this loop, with the new config after every change.
        contexts: TLS contexts of listeners with their files and config section; the list itself is kept, and may grow later.
        renewed: called with the new TLS context for connections to engines after every reload.

    Attributes:
        settled: the config in force, with the origin of each setting.
        results: number of calls of `reload` by result, ``ok`` or ``refused``.
    """

    def __init__(
        self,
        sources: Sources,
        settled: Settled[GatewayConfig],
        proxy: ControlProxy,
        membership: Membership,
        heard: list[Callable[[GatewayConfig], None]],
        contexts: list[_Context],
        renewed: Callable[[ssl.SSLContext], None],
    ) -> None:
        self.settled = settled
        self.results: Counter[str] = Counter({"ok": 0, "refused": 0})
        self._sources, self._proxy, self._membership = sources, proxy, membership
        self._heard, self._contexts, self._renewed = heard, contexts, renewed
        self._turn = asyncio.Lock()

    async def reload(self) -> Reloaded:
        """Read all sources again, and use the new config with its certificates and workers. Concurrent calls wait in turn.

        Raises InputError for an invalid config, which changes nothing. It is also raised if the gateway refuses a worker
        when the new config is already in force; changes of workers before it stay.
        """
        async with self._turn:
            before = self.settled
            try:
                fresh = await asyncio.to_thread(self._sources.settled)
                done = await self._go_by(fresh)
            except EvenstepError as error:
                self.results["refused"] += 1
                is_used = self.settled is not before
                said = "the new config is in force, but not all of its workers" if is_used else _REFUSED
                _log.error(said, extra={"why": str(error)})
                raise
            self.results["ok"] += 1
            _log.info("config reloaded", extra=dataclasses.asdict(done))
            return done

    async def set_policy(self, policy: str, predictor: str) -> None:
        """Use another policy and predictor until the next reload; their origin is then ``admin API``.

        Both are as NAME[:key=value,...]; an empty predictor is the policy's default. Raises InputError if there is no such
        policy, predictor or option; nothing has changed then.
        """
        async with self._turn:
            config = dataclasses.replace(self.settled.value, policy=policy, predictor=predictor)
            origin = {**self.settled.origin, "policy": "admin API", "predictor": "admin API"}
            try:
                await self._use(Settled(config, origin))
            except InputError as error:
                raise placed(error, origin) from None
            _log.info("policy changed", extra={"policy": policy, "predictor": predictor})

    async def _go_by(self, fresh: Settled[GatewayConfig]) -> Reloaded:
        """Use a config that was read anew, except for settings that need a restart; returns what has changed."""
        before, after = self.settled.value, fresh.value
        fixed = {name: getattr(before, name) for name in _FIXED}
        wanted = dataclasses.replace(after, **fixed)
        origin = {
            name: self.settled.origin.get(name, place) if _is_fixed(name) else place for name, place in fresh.origin.items()
        }
        try:
            self._membership.plan(CONFIG, wanted.fleet())  # raises before anything changes
            await self._use(Settled(wanted, origin), self._contexts)
            plan = await self._membership.replace(CONFIG, wanted.fleet())  # planned anew: others may have joined meanwhile
        except InputError as error:
            raise placed(error, origin) from None
        different = [n for n in fresh.origin if value_at(before, n) != value_at(after, n)]
        return Reloaded(
            changed=[n for n in different if not _is_fixed(n)],
            joined=[worker.name for worker in plan.joins],
            left=plan.leaves,
            needs_restart=[n for n in different if _is_fixed(n)],
        )

    async def _use(self, settled: Settled[GatewayConfig], contexts: Sequence[_Context] | None = None) -> None:
        """Check a config, load its kernels and certificates, let the gateway use it, then call the functions in `heard`.

        The whole config is checked before the compiler is waited for, which may take a minute. The log tells of the wait.
        The certificates are those of `contexts` and those for engines; None = all stay as they are. While this process
        decides in plain Python, the config is used before its kernels are compiled. If it changes over to compiled code
        meanwhile, all of this is done again, to load the kernels. Raises InputError if the config cannot be used; then
        nothing has changed.
        """
        config, is_used, tls = settled.value, False, None
        while not is_used:
            is_plain = begins_plain()
            await asyncio.to_thread(_check, config, contexts or ())
            if contexts is not None:
                tls = await asyncio.to_thread(client_context, config.engines)
            if not (is_plain or is_compiled(config.policy, config.predictor)):
                text = "compiling what the new policy needs, up to a minute; the former policy decides until then"
                _log.info(text, extra={"policy": config.policy, "predictor": config.predictor})
            await compile_beside(config.policy, config.predictor)
            await asyncio.to_thread(_load, config)
            for context, files, where in contexts or ():
                load_certificate(context, files, where)
            is_used = await asyncio.wrap_future(self._proxy.ask(self._tell, config, tls, is_plain))
        self.settled = settled
        if tls is not None:
            self._renewed(tls)
        for heard in self._heard:
            heard(config)

    def _tell(self, config: GatewayConfig, tls: ssl.SSLContext | None, is_plain: bool) -> bool:
        """Let the gateway use a config, and return True; runs on the gateway's loop.

        If the config was checked in plain Python (`is_plain`) but compiled code decides by now, it returns False and does
        nothing: the kernels must be loaded first.
        """
        if is_plain and not begins_plain():
            return False
        self._proxy.gateway.reload(config, tls)
        return True


def _is_fixed(name: str) -> bool:
    """Whether a dotted setting keeps its value until a restart."""
    return name.partition(".")[0] in _FIXED


def _check(config: GatewayConfig, contexts: Sequence[_Context]) -> None:
    """Build what the gateway will build from a config, except its kernels; blocks. Raises InputError if a part fails."""
    checked(config)
    Callers(config)
    if config.admin.enabled and config.admin.key:
        digest_of(config.admin.key, "admin", "key")
    for worker in config.fleet():
        worker.secret()
    for _, tls, where in contexts:
        server_context(tls, where)


def _load(config: GatewayConfig) -> None:
    """Load the kernels for a config, or compile them here. It blocks; InputError if policy or predictor cannot be used."""
    with refused_as("policy", config.policy):
        build_or_warm(config.policy, config.predictor)
