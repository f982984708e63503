"""``evenstep replay`` gives the events of a live dispatcher's decision log to a fresh one, and compares their decisions.

It prints the first decision that differs, and what the policy saw then. Then the exit code is 1, unless ``--policy`` or
``--predictor`` is given.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from evenstep.cli.parts import flags, outputs
from evenstep.wording import counted

if TYPE_CHECKING:
    from evenstep.dispatch.replay import Difference, Replayed
    from evenstep.dispatch.seen import Seen, SeenRequest, SeenWorker


class Replay:
    summary = "replay a decision log, with the same rules or others"
    description = (
        "Gives the events of a decision log to a fresh dispatcher. With the log's own policy every decision must be the\n"
        "same, bit for bit (exit code 1 if one is not). With --policy or --predictor it shows the first decision that is\n"
        "another one. What would have followed is simulated by evenstep compare LOG, on the log's own fleet.\n"
        "--decision N shows what the policy saw at a decision that does not differ: run it with two versions of evenstep,\n"
        "and compare what they print."
    )
    examples = (
        "evenstep replay decisions.evlog",
        "evenstep replay decisions.evlog --policy br-0:candidates=12",
        "evenstep replay decisions.evlog --decision 31",
        "evenstep compare decisions.evlog --policy jsq --policy br-0",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="LOG", help="decision log, or its first part")
        parser.add_argument("--policy", default="", metavar="NAME[:KEY=VALUE,...]", help="decide by this one instead")
        parser.add_argument("--predictor", default="", metavar="NAME[:KEY=VALUE,...]", help="predict by this one instead")
        parser.add_argument("--decision", type=int, metavar="N", help="stop at this decision, counted from 0")
        flags.add_format(parser)

    def run(self, args: argparse.Namespace) -> int:
        import msgspec

        from evenstep.dispatch.replay import replay

        found = replay(args.file, args.policy, args.predictor, until=args.decision)
        value = {"version": 1, "command": args.command_line, **msgspec.to_builtins(found)}
        outputs.answer(args, value, [*_lines(found), *_seen(found)])
        return 1 if found.difference is not None and not found.is_changed else 0


command = Replay()

_SHOWN, _WORKERS = 12, 32  # requests of a decision, and workers, that are listed


def _lines(found: Replayed) -> list[str]:
    cut = counted(found.cut_off, "byte")
    told = {
        "policy": found.policy,
        "predictor": found.predictor or "-",
        "events": found.events,
        "decisions": f"{found.decisions}, of them {found.fallbacks} by the fallback",
        "cut off": f"{cut} at the end, no whole record: its writer was killed" if found.cut_off else "",
        "gaps": f"{found.gaps}, where the log could not be written for a while" if found.gaps else "",
    }
    lines = [f"{name:<13} {text}" for name, text in told.items() if text != ""]
    if found.difference is None:
        which = "every decision" if found.seen is None else "every decision up to this one"
        return [*lines, f"{which} is the same"]
    return [*lines, *_told(found.difference)]


def _told(difference: Difference) -> list[str]:
    """Lines on the first difference: the decision, its time, its kind, and the recorded and replayed answers."""
    what = {
        "view": "the cluster looked different",
        "answer": "the answer is another one",
        "fallback": "who decided is another",
        "missing": "it is not made any more",
        "extra": "it was not made before",
    }
    lines = [f"first difference: decision {difference.decision} at {difference.now_s:.6f} s, {what[difference.what]}"]
    recorded, replayed = difference.recorded, difference.replayed
    for name, found, other in (("recorded", recorded, replayed), ("replayed", replayed, recorded)):
        if found is not None:
            by = f" (fallback: {found.fallback})" if found.fallback else ""
            sent = _sent(found.sent, other.sent if other is not None else {})
            lines.append(f"  {name}: {found.waiting} waiting, sent {sent}{by}")
    return lines


def _seen(found: Replayed) -> list[str]:
    """What the policy saw in the replay at the decision shown: a table of workers, and one of waiting requests."""
    from evenstep.report.tables import aligned

    if (seen := found.seen) is None:
        return []
    workers, waiting = _named_first(seen, found.difference)
    loads = [
        [w.worker, f"{w.load:.0f}", str(w.running), str(w.queued), str(w.free_slots), _tokens(w.kv_free)]
        for w in workers[:_WORKERS]
    ]
    requests = [[str(r.request), f"{r.tokens:.0f}", f"{r.waited_s:.6f}"] for r in waiting[:_SHOWN]]
    lines = ["", f"what the policy saw in the replay, after the event {found.after} (checksum {seen.checksum})"]
    for head, rows, every in (
        (["worker", "KV tokens", "running", "queued", "slots offered", "KV free"], loads, len(workers)),
        (["waiting request", "KV tokens", "waited s"], requests, len(waiting)),
    ):
        lines += ["", *(f"  {line}" for line in aligned([head, *rows]))]
        lines += [f"  and {every - len(rows)} more (--format json has all)"] if len(rows) < every else []
    return lines


def _named_first(seen: Seen, difference: Difference | None) -> tuple[list[SeenWorker], list[SeenRequest]]:
    """All workers and all waiting requests, those first that the recorded or the replayed decision names."""
    both = () if difference is None else (difference.recorded, difference.replayed)
    sent = [pair for one in both if one is not None for pair in one.sent.items()]
    requests, workers = {request for request, _ in sent}, {worker for _, worker in sent}
    return (
        sorted(seen.workers, key=lambda one: one.worker not in workers),
        sorted(seen.waiting, key=lambda one: one.request not in requests),
    )


def _tokens(free: float | None) -> str:
    return "no limit" if free is None else f"{free:.0f}"


def _sent(mine: dict[int, str], other: dict[int, str]) -> str:
    """The worker of each request, as text. Of more than 12 it shows at most 12 that `other` sends elsewhere, and a count."""
    shown = sorted(mine.items())
    if len(mine) > _SHOWN:
        shown = [(request, worker) for request, worker in shown if other.get(request) != worker][:_SHOWN]
    more = f" and {len(mine) - len(shown)} more" if len(mine) > len(shown) else ""
    return (", ".join(f"{request} -> {worker}" for request, worker in shown) or "no request") + more
