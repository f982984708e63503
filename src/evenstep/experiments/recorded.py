"""Recorded verdicts: what every experiment's claims came to at full size, and what follows for the items of the papers.

``evenstep reproduce all`` writes the record; the one of this version is ``papers/recorded.json``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from evenstep.config import load
from evenstep.errors import InputError
from evenstep.report.findings import Reproduction, json_object
from evenstep.report.papers import Item, Paper, Papers, Verdict

#: By experiment its claims; each claim says something, has a verdict, and figures that were seen.
Record: TypeAlias = Mapping[str, Sequence[Mapping[str, str]]]

_FOLDER = Path(__file__).with_name("papers")
#: The verdicts on an item that was run, the weakest first.
_ORDER: tuple[Verdict, ...] = ("not ours to have", "does not", "holds within", "holds")


def record(found: Iterable[Reproduction]) -> bytes:
    """The claims of reproductions at full size, as the bytes of a JSON file like ``papers/recorded.json``; no quick ones."""
    kept = [json_object(one) for one in found if not one.quick]
    claims = {
        one["experiment"]: [{key: claim[key] for key in ("says", "verdict", "seen")} for claim in one["claims"]]
        for one in kept
    }
    about: dict[str, Any] = {"version": 1, "experiments": claims}
    return orjson.dumps(about, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def recorded() -> Record:
    """The record of this version, read from ``papers/recorded.json`` at each call: claims by experiment."""
    return orjson.loads((_FOLDER / "recorded.json").read_bytes())["experiments"]


def papers() -> tuple[Paper, ...]:
    """The five papers with every item of theirs: its code, command and verdict.

    An item that experiments cover takes its verdict from the recorded claims, unless it states a weaker one. An item without
    experiments keeps the verdict that ``papers.yaml`` states.

    Raises:
        InputError: an item states a verdict that is not weaker than the recorded one, or needs claims that are not recorded.
    """
    found, known = load(_FOLDER / "papers.yaml", Papers).papers, recorded()
    return tuple(replace(paper, rows=tuple(_with_verdict(paper, item, known) for item in paper.rows)) for paper in found)


def deciding(item: Item, known: Record) -> list[Mapping[str, str]]:
    """The recorded claims that decide an item's verdict, of the experiments in its `run`.

    Those are the claims whose sentence contains one of the texts in `item.claims`; all claims if it has no such text.

    Raises:
        InputError: one of these texts is in no claim, or its experiments have no recorded claims.
    """
    every = [claim for name in item.run for claim in known.get(name, ())]
    for text in item.claims:
        if not any(text in claim["says"] for claim in every):
            raise InputError("papers.yaml", ", ".join(item.of), text, "words of a recorded claim", "Run reproduce all.")
    chosen = [claim for claim in every if not item.claims or any(text in claim["says"] for text in item.claims)]
    if not chosen:
        raise InputError("papers.yaml", ", ".join(item.of), ", ".join(item.run), "recorded claims", "Run reproduce all.")
    return chosen


def judged(claims: Iterable[Mapping[str, str]]) -> Verdict:
    """The verdict of an item: ``holds`` if all claims hold, ``does not`` if no claim holds, and ``holds within`` else.

    A claim that is not settled does not hold. Without claims the verdict is ``does not``.
    """
    verdicts = {claim["verdict"] for claim in claims}
    return "holds" if verdicts == {"holds"} else "holds within" if "holds" in verdicts else "does not"


def _with_verdict(paper: Paper, item: Item, known: Record) -> Item:
    if not item.run:
        return item
    found = judged(deciding(item, known))
    if item.verdict and _ORDER.index(item.verdict) >= _ORDER.index(found):
        where = f"papers.yaml: {paper.name}, {', '.join(item.of)}"
        raise InputError(where, "verdict", item.verdict, f"left out, or weaker than the recorded one, {found}")
    return item if item.verdict else replace(item, verdict=found)
