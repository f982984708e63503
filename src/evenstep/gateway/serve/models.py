"""The models that workers serve: reads and joins pages of ``/v1/models``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from evenstep.errors import EngineError


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One entry of a ``/v1/models`` page."""

    name: str  # its id
    parent: str  # the base model of an adapter; empty for a base model
    text: bytes  # the entry as the engine or `card_of` wrote it, a JSON object


class _Entry(msgspec.Struct):
    id: str
    parent: str | None = None


class _Page(msgspec.Struct):
    data: list[msgspec.Raw]


def read_models(body: bytes) -> list[ModelCard]:
    """The entries of a page, models before their adapters, else in the page's order.

    Raises EngineError if it is not such a page, or if it lists nothing.
    """
    try:
        page = msgspec.json.decode(body, type=_Page)
        entries = [(msgspec.json.decode(raw, type=_Entry), bytes(raw)) for raw in page.data]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise EngineError("engine: its list of models cannot be read.") from None
    if not entries:
        raise EngineError("engine: its list of models is empty.")
    cards = [ModelCard(entry.id, entry.parent or "", text) for entry, text in entries]
    return sorted(cards, key=lambda card: bool(card.parent))


def card_of(name: str, parent: str = "") -> ModelCard:
    """A new entry for a name that only the config has; `parent` is the base model of an adapter."""
    entry = {"id": name, "object": "model", "created": 0, "owned_by": "evenstep"}
    return ModelCard(name, parent, msgspec.json.encode(entry | ({"parent": parent} if parent else {})))


def page(cards: Iterable[ModelCard]) -> bytes:
    """The ``/v1/models`` page, as JSON, that lists these entries in their order."""
    return b'{"object":"list","data":[' + b",".join(card.text for card in cards) + b"]}"


def joined(old: Mapping[str, ModelCard], new: Iterable[ModelCard]) -> dict[str, ModelCard]:
    """A new mapping, name -> card, with the old entries first; of several cards with one name, the first is kept."""
    found = dict(old)
    for card in new:
        found.setdefault(card.name, card)
    return found
