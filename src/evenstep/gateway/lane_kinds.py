"""Kinds of requests that the lane knows, and the ways they go to workers: rows of its tables, by what they stand for."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from evenstep.addresses import placed
from evenstep.engines.prompt_blocks import blocks_of, name_key, seeded
from evenstep.engines.prompt_blocks_kernel import MOST_MODEL
from evenstep.engines.requests import GenerationRequest
from evenstep.gateway import lane_layout as at
from evenstep.gateway.alike import Alike
from evenstep.gateway.attached import Attached
from evenstep.gateway.endpoint import Endpoint
from evenstep.gateway.lane_tables import Tables
from evenstep.gateway.served import ServedModel

if TYPE_CHECKING:
    from evenstep.gateway.front import Front


class Kind:
    """Requests that differ in their prompts alone.

    Args:
        number: of its row in the lane's tables.
        alike: by what they are known.
        model: who serves them.
        tenant: who pays.

    Attributes:
        sizes: what is known of their prompts' sizes; the lane's tables have its address.
        routes: rows of the lane's tables by worker, None = there can be none.
    """

    def __init__(self, number: int, alike: Alike, model: ServedModel, tenant: str) -> None:
        self.number, self.alike, self.model, self.tenant = number, alike, model, tenant
        self.sizes = model.sizes.numbers(alike.frame.model)
        self.routes: dict[Attached, int | None] = {}
        self._seed: hashlib.blake2b | None = None

    def blocks(self, prompt: memoryview, salt: bytes) -> tuple[int, ...]:
        """Ids of a prompt's blocks, where the policy looks at prefix caches."""
        size = self.model.dispatcher.settings.prefix_block_bytes
        if not self.model.reads_cached or len(prompt) <= size:
            return ()
        if self._seed is None:
            alike, empty = self.alike, b'""'
            body = alike.after[alike.head_more :] + empty + alike.behind
            self._seed = seeded(GenerationRequest(alike.frame, body, empty), salt)
        return tuple(blocks_of(prompt, self._seed.copy(), block_bytes=size))

    def numbers(self, salt: bytes) -> tuple[int, ...]:
        """What `Tables.set_kind` takes."""
        alike, frame, asking = self.alike, self.alike.frame, self.alike.asking
        session = asking.session or asking.task or frame.user
        return (
            alike.head_more, alike.body_bytes, alike.opening == b"[{", placed(self.sizes),
            placed(self.model.numbers), max(0, frame.max_tokens), name_key(session, salt) if session else 0,
            asking.number, asking.expected,
        )  # fmt: skip


class Kinds:
    """All of them.

    Args:
        tables: the lane's.
        salt: names are hashed under it.

    Attributes:
        here: by number. ways: workers by route.
        only: the model that all of them are for; None = there are none, or several models.
        is_full: no row is left for something; `clear` makes room.
    """

    def __init__(self, tables: Tables, salt: bytes) -> None:
        self._tables, self._salt = tables, salt
        self.here: list[Kind] = []
        self._found: dict[tuple[Any, ...], Kind] = {}
        self._engines: dict[Endpoint, int] = {}
        self.ways: list[Attached] = []
        self.only: ServedModel | None = None
        self.is_full = False

    def clear(self) -> None:
        """Forget everything."""
        self.here.clear()
        self._found.clear()
        self._engines.clear()
        self.ways.clear()
        self.only, self.is_full = None, False

    def find(self, alike: Alike, front: Front) -> Kind | None:
        """Requests like this one; None where they are for others to serve, or no row is left."""
        frame, asking = alike.frame, alike.asking
        model, caller = front.pools.pool_of(frame.model), asking.caller
        if model is None or model.counts_prompts or model.dispatcher.fleet.is_split:
            return None
        if (
            len(frame.model_value) > MOST_MODEL
            or not frame.goes_unchanged
            or frame.best_of != 1
            or caller is None
            or not (asking.head.keep_alive and asking.head.chunks)
        ):
            return None
        if front.class_sinks if asking.number else front.sinks:  # somebody wants to hear of each
            return None
        key = alike.before, alike.after, alike.head_more, alike.behind, alike.opening, model.name
        found = self._found.get(key)
        if found is None:
            self.is_full |= len(self.here) == self._tables.most[0]
            if self.is_full:
                return None
            found = self._found[key] = Kind(len(self.here), alike, model, caller.tenant)
            self.only = model if not self.here or self.only is model else None
            self.here.append(found)
            around = alike.before, alike.after, alike.behind
            self._tables.set_kind(found.number, around, frame.model_value, found.numbers(self._salt))
        return found

    def route(self, kind: Kind, attached: Attached) -> int | None:
        """How requests of a kind go to a worker; None where they go in another way."""
        engine, alike = self.engine(attached.endpoint), kind.alike
        front, back = attached.generation_around(alike.opening == b"[{", alike.asking.carried)
        self.is_full |= len(self.ways) == self._tables.most[1]
        found = None
        if engine is not None and not self.is_full and len(front) + len(back) <= at.MOST_LINES:
            found = len(self.ways)
            self.ways.append(attached)
            self._tables.set_route(found, engine, front, back)
        kind.routes[attached] = found
        return found

    def engine(self, endpoint: Endpoint) -> int | None:
        """The row of an engine; None = there is none."""
        if endpoint.is_tls:
            return None
        if endpoint not in self._engines:
            self.is_full |= len(self._engines) == self._tables.most[2]
            if self.is_full:
                return None
            self._engines[endpoint] = len(self._engines)
        return self._engines[endpoint]
