"""Recorded verdicts: the claims of every experiment at full size, and the verdicts that follow for the papers' items.

``evenstep reproduce all`` writes the record; the one of this version is ``papers/recorded.json``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from evenstep.config.convert import convert
from evenstep.config.yaml_file import read_yaml
from evenstep.errors import InputError
from evenstep.report.findings import Reproduction, json_object
from evenstep.report.papers import Item, Paper, Papers, Verdict

#: Claims by experiment; each has the keys ``says`` (a sentence), ``verdict`` and ``seen`` (our figures as text).
Record: TypeAlias = Mapping[str, Sequence[Mapping[str, str]]]

_FOLDER = Path(__file__).with_name("papers")
#: The verdicts on an item that was run, the weakest first.
_ORDER: tuple[Verdict, ...] = ("not ours to have", "does not", "holds within", "holds")


def record(found: Iterable[Reproduction]) -> bytes:
    """The claims of reproductions, as bytes of a JSON file like ``papers/recorded.json``; quick ones are left out."""
    return _written({one.name: _claims(json_object(one)) for one in found if not one.quick})


def record_one(found: Mapping[str, Any]) -> bytes:
    """The record of this version with the claims of one experiment put in; `found` is what ``--format json`` prints of it.

    Raises InputError if it was run with ``--quick``.
    """
    name = found["experiment"]
    if found["quick"]:
        raise InputError(name, "--quick", "given", "a run at full size: only that one is recorded")
    return _written({**recorded(), name: _claims(found)})


def _claims(found: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{key: claim[key] for key in ("says", "verdict", "seen")} for claim in found["claims"]]


def _written(claims: Record) -> bytes:
    about: dict[str, Any] = {"version": 1, "experiments": dict(sorted(claims.items()))}
    return orjson.dumps(about, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def recorded() -> Record:
    """The record of this version, claims by experiment, read from ``papers/recorded.json`` at each call."""
    return orjson.loads((_FOLDER / "recorded.json").read_bytes())["experiments"]


def papers() -> tuple[Paper, ...]:
    """The five papers with all their items, each with its code, command and verdict.

    An item with experiments takes its verdict from the recorded claims, unless it states a weaker one. An item without them
    keeps the verdict that ``papers.yaml`` states. `InputError` for an item that states a verdict not weaker than the
    recorded one, or needs claims that are not recorded.
    """
    found, known = convert(read_yaml(_FOLDER / "papers.yaml"), Papers).papers, recorded()
    return tuple(replace(paper, rows=tuple(_with_verdict(paper, item, known) for item in paper.rows)) for paper in found)


def deciding(item: Item, known: Record) -> list[Mapping[str, str]]:
    """The recorded claims that decide an item's verdict, from the experiments in `item.run`.

    These are the claims whose sentence contains one of the texts in `item.claims`; all claims if that is empty. `InputError`
    for a text that is in no claim, or if no experiment has recorded claims.
    """
    every = [claim for name in item.run for claim in known.get(name, ())]
    for text in item.claims:
        if not any(text in claim["says"] for claim in every):
            raise InputError("papers.yaml", ", ".join(item.of), text, "words of a recorded claim", _hint(item))
    chosen = [claim for claim in every if not item.claims or any(text in claim["says"] for text in item.claims)]
    if not chosen:
        raise InputError("papers.yaml", ", ".join(item.of), ", ".join(item.run), "recorded claims", _hint(item))
    return chosen


def _hint(item: Item) -> str:
    return f"In a clone, make papers ONLY={item.run[0]} records them."


def judged(claims: Iterable[Mapping[str, str]]) -> Verdict:
    """The verdict of an item: ``holds`` if all claims hold, ``does not`` if no claim holds, else ``holds within``.

    A claim that is not settled does not hold. Without claims the verdict is ``does not``.
    """
    verdicts = {claim["verdict"] for claim in claims}
    return "holds" if verdicts == {"holds"} else "holds within" if "holds" in verdicts else "does not"


def _with_verdict(paper: Paper, item: Item, known: Record) -> Item:
    """The item with the verdict that `papers` describes; `known` is the record."""
    if not item.run:
        return item
    found = judged(deciding(item, known))
    if item.verdict and _ORDER.index(item.verdict) >= _ORDER.index(found):
        where = f"papers.yaml: {paper.name}, {', '.join(item.of)}"
        raise InputError(where, "verdict", item.verdict, f"left out, or weaker than the recorded one, {found}")
    return item if item.verdict else replace(item, verdict=found)
