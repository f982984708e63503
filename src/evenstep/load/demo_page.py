"""Shows the results of `evenstep demo` as a text table and as one HTML page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from html import escape
from typing import Any

from evenstep.load import page as load_page
from evenstep.load.demo import Shown, cores
from evenstep.load.demo_settings import DemoSettings, contender
from evenstep.measure.metrics import known
from evenstep.report.html import swatch, table
from evenstep.report.numbers import MISSING, percent, short
from evenstep.report.svg import series_of
from evenstep.wording import counted

#: Heading, unit and width in characters of each column after the policy's name.
COLUMNS = (
    ("tokens/s", "engine time", 11),
    ("vs first", "%", 8),
    ("tokens/s", "wall time", 9),
    ("TPOT p95", "ms", 8),
    ("barrier", "engines, %", 10),
    ("barrier", "gateway, %", 10),
    ("step", "ms", 6),
    ("oldest wait", "s", 11),
    ("failed", "requests", 8),
)


#: If the gateway detected a smaller share of the steps, `foot` says so.
_SEEN = 0.9
#: If the fallback decided a larger share of the rounds, `foot` says so.
_FALLEN_BACK = 0.02


def cells(row: Shown, first: Shown) -> list[str]:
    """One policy's figures as texts, one for each of `COLUMNS`; unknown figures are `MISSING`.

    The second text is the change in tokens a second against the row `first`, in per cent; for that row it is "first". It
    is `MISSING` if only one of the two rows had full slots, or a figure is unknown.
    """
    is_alike = row.is_full == first.is_full and first.tokens_per_s > 0
    change = 100 * (row.tokens_per_s / first.tokens_per_s - 1) if is_alike else math.nan
    return [
        MISSING if math.isnan(row.tokens_per_s) else f"{row.tokens_per_s:,.0f}",
        "first" if row is first else MISSING if math.isnan(change) else f"{change:+.1f}",
        f"{row.wall_tokens_per_s:,.0f}",
        short(row.summary["p95_tpot_ms"]),
        percent(row.idle_engines, 1),
        percent(row.idle_gateway, 1),
        short(row.step_ms),
        short(row.oldest_wait_s),
        str(row.summary["failed"]),
    ]


def head() -> list[str]:
    """The two heading lines of the text table: column names, and units below them."""
    names, units, _ = zip(*COLUMNS, strict=True)
    return [_line("policy", names), _line("", units)]


def line(row: Shown, first: Shown) -> str:
    """One policy's line of the text table; one column compares its tokens a second with those of the row `first`."""
    return _line(row.name, cells(row, first))


def _line(name: str, texts: Iterable[str]) -> str:
    """A line of the text table: a name, and a text for each of `COLUMNS`."""
    shown = zip(texts, COLUMNS, strict=True)
    return f"{name:<12}" + "".join(f"  {text:>{width}}" for text, (_, _, width) in shown)


def foot(settings: DemoSettings, rows: Sequence[Shown]) -> list[str]:
    """Sentences below the table: how to read the figures, which rows to distrust, CPU use, and late steps if over 1 %.

    `rows` has one row for each policy, at least one.
    """
    said = [
        f"{counted(settings.ranks, 'emulated rank')} of {counted(settings.slots, 'slot')} in one barrier group, "
        f"no prefill on them; C = {settings.overhead_s:g} s, t_l = {settings.per_token_s:g} s a token.",
        f"{counted(rows[0].summary['num_prompts'], 'request')} of {settings.source}, at {settings.load:g} times what even "
        "loads could take.",
        f"{_window(rows)} Engine time is that of the emulated steps; where this machine is late, wall time is more.",
        "Barrier: share of device time spent waiting there, as the engines know it and as the gateway works it out.",
    ]
    for row in rows:
        gather = contender(row.name)[1]
        if gather is not None:
            said.append(f"{row.name}: the gateway gathers freed slots for {gather:g} ms, not for as long as usual.")
        if row.fallback_share > _FALLEN_BACK:
            said.append(
                f"{row.name}: least load decided {100 * row.fallback_share:.0f} % of the rounds in its place, since it "
                "took too long or the engines were not heard of in time; its figures are not its own."
            )
        if row.steps_seen < _SEEN:
            said.append(
                f"{row.name}: chunks came so late that the gateway told only {100 * row.steps_seen:.0f} % of the steps "
                "apart; its share of barrier time is of these."
            )
    return said + strained(rows)


def _window(rows: Sequence[Shown]) -> str:
    """Sentences that say over which part of each run its figures are measured: full slots, or any request running."""
    short = [row.name for row in rows if not row.is_full]
    if not short:
        return "All but TPOT, waits and failures is of the time with full slots."
    said = "all but TPOT, waits and failures is of the time with any request running"
    if len(short) == len(rows):
        return f"Slots were hardly ever full: {said}. More --requests or a higher --load fill them."
    return (
        f"All but TPOT, waits and failures is of the time with full slots. Under {', '.join(short)} they were hardly ever "
        f"full: there {said}, which does not compare with the other rows."
    )


def strained(rows: Sequence[Shown]) -> list[str]:
    """A line with each process's highest CPU share over all rows, and a warning if over 1 % of any row's steps were late."""
    used = [
        f"{name} {100 * max(values):.0f} %"
        for name in ("engines", "gateway", "client")
        if (values := [row.cpu[name] for row in rows if not math.isnan(row.cpu.get(name, math.nan))])
    ]
    said = [f"CPU of a core at most: {', '.join(used)}; {cores()} cores."]
    late = max(row.late_share for row in rows)
    if late > 0.01:
        said.append(
            f"The machine was too slow: {100 * late:.0f} % of steps began late. The figures hold its delays; "
            "take fewer --slots, or longer steps."
        )
    return said


def values(row: Shown) -> dict[str, Any]:
    """One policy's figures as JSON values: the float and bool fields of `demo.Shown` by name, None for nan.

    Added are ``policy`` (its text), the CPU shares ``cpu_engines``, ``cpu_gateway`` and ``cpu_client``, and ``client``, the
    client's whole summary.
    """
    told = {one.name: getattr(row, one.name) for one in fields(row) if one.type in ("float", "bool")}
    told |= {f"cpu_{name}": share for name, share in row.cpu.items()}
    return {"policy": row.name, **{name: known(value) for name, value in told.items()}, "client": row.summary}


def page(settings: DemoSettings, rows: Sequence[Shown], versions: Mapping[str, Any], command: str) -> str:
    """The text of the HTML page, in which policies are compared with the first of `rows` (at least one row).

    `versions` are facts on how the page was made, by name; `command` is the command line that made it.
    """
    first = rows[0]
    number = series_of(row.name for row in rows)
    body = [[f"{swatch(number[row.name])}{escape(row.name)}", *cells(row, first)] for row in rows]
    heads = [("policy", ""), *((name, unit) for name, unit, _ in COLUMNS)]
    lead = [_lead(rows), table(heads, body), *(f'<p class="hint">{escape(text)}</p>' for text in foot(settings, rows))]
    runs = {row.name: (row.outcome, row.summary) for row in rows}
    title = f"Live: {settings.ranks} emulated ranks behind the gateway"
    return load_page.page(title, runs, lead, versions, command)


def _lead(rows: Sequence[Shown]) -> str:
    """An HTML paragraph: the gain, if any, of the policy of most tokens a second over the first row, of equal `is_full`."""
    first = rows[0]
    alike = [row for row in rows if row.is_full == first.is_full]
    if len(alike) == 1 < len(rows):
        said = "slots were full under some policies only. More requests or a higher load fill them."
        return f"<p class='lead'>No row compares with <b>{escape(first.name)}</b>: {said}</p>"
    best = max(alike, key=lambda row: row.tokens_per_s)
    if best is first or first.tokens_per_s <= 0:
        return f"<p class='lead'>No policy here made more tokens a second than <b>{escape(first.name)}</b>.</p>"
    gain = 100 * (best.tokens_per_s / first.tokens_per_s - 1)
    return (
        f"<p class='lead'><b>{escape(best.name)}</b> made {gain:.1f} % more tokens a second than {escape(first.name)} on the"
        f" same engines: they waited {percent(best.idle_engines, 1)} % of their time at the barrier, not"
        f" {percent(first.idle_engines, 1)} %.</p>"
    )
