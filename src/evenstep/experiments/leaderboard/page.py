"""A leaderboard as a page of Markdown, and as lines for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from evenstep.experiments.leaderboard.file import BELOW
from evenstep.experiments.leaderboard.ranks import Standing, alike, overall, standings
from evenstep.experiments.leaderboard.table import Table, WorkloadLine
from evenstep.measure.comparison import Interval
from evenstep.report.numbers import MISSING, short
from evenstep.report.tables import cut_names, fitted, full_names, name_limit
from evenstep.wording import counted

#: Heading, metric and factor of the columns next to rank, policy and ranking metric.
_LOST = ("time lost at the barrier, %", "idle_time_share", 100.0)
_LOAD = ("load imbalance, %", "idle_share", 100.0)
_TPOT = ("TPOT, ms", "tpot_mean_s", 1e3)
_SATURATED_COLUMNS = (_LOAD, ("full slots, tokens/s", "full_slot_tokens_per_s", 1.0), _TPOT)
_BELOW_COLUMNS = (_LOST, _LOAD, _TPOT)
_WAITS = (("mean wait, s", "mean_wait_s", 1.0), ("oldest wait, s", "oldest_wait_s", 1.0))
#: Display of the ranking metric: heading, factor and decimals.
_RANKED = {
    "idle_time_share": ("time lost at the barrier, %", 100.0, 2),
    "idle_share": ("load imbalance, %", 100.0, 2),
    "imbalance_envelope_tokens": ("imbalance, KV tokens", 1.0, 0),
}


def page(table: Table, *, data: str, picture: str) -> str:
    """The whole page as Markdown. `data` is a link to its Parquet file, `picture` one to its picture, or empty for none."""
    parts = ["# Leaderboard", "", *_intro(table, data), ""]
    if picture:
        shown = " and ".join(table.picture)
        named = {line.name: _RANKED[line.metric][0].partition(",")[0] for line in table.workloads}
        ranked = " and ".join(dict.fromkeys(named[name] for name in table.picture))
        alt = f"{ranked[:1].upper()}{ranked[1:]} by policy on {shown}: live policies, and oracles set apart"
        parts += [f"![{alt}]({picture})", ""]
    parts += ["## All workloads", "", *_overall_words(table), "", *_overall_table(table), ""]
    for line in table.workloads:
        parts += _workload(table, line)
    return "\n".join(parts).rstrip() + "\n"


def text_lines(table: Table, width: int | None = None) -> list[str]:
    """The ranks over all workloads as aligned lines for a terminal, in the order of `overall`, under a line of headings.

    Oracles are left out. Long names are cut (`name_limit`), and columns that do not fit `width` letters follow below. Full
    names of cut ones stand at the end. `width` None = no limit.
    """
    rows = overall(table)
    names = cut_names([one.policy for one in rows], name_limit(width))
    lines = [["policy", "mean rank", "level with the leader"]]
    for one in rows:
        ran = sum(rank is not None for rank in one.ranks)
        note = "" if one.complete else " it ran on"
        lines.append([names[one.policy], f"{one.mean_rank:.1f}", f"on {one.level} of {ran}{note}"])
    return [*fitted(lines, width, left=(0, 2)), *full_names(names)]


def _intro(table: Table, data: str) -> list[str]:
    made, live = table.origin, [cell for cell in table.cells if not cell.oracle]
    policies = dict.fromkeys(cell.policy for cell in live)
    versions = ", ".join(f"{name} {value}" for name, value in made.versions.items())
    oracles = len(table.policies) - len(policies)
    return [
        f"{counted(len(policies), 'policy', 'policies')} that can run live, and {counted(oracles, 'that is', 'that are')}"
        " shown true lengths, ranked",
        f"on {counted(len(table.workloads), 'workload')}.",
        *_ranked(table),
        "Defaults are the constants of a policy's paper and, where a request could starve, an age bound;",
        "`age_limit=0` is paper mode, without that bound. `predictor=live` is what a router can have: the predictor",
        "named with the workload. `predictor=oracle` is what none has.",
        "Everything is simulated; the documentation's pages *What the simulator models* and *A fair comparison* say how.",
        "",
        f"Made on {made.date}{made.commit and ' at commit '}{made.commit} ({versions}),",
        f"{_seeds(table)}{_fewer(table)}, by",
        "",
        "```text",
        made.command,
        "```",
        "",
        f"Every run is a row of [{data}]({data}); the documentation's page *Metrics* defines every figure.",
        "Intervals are 95 % t-intervals over replicates; differences are paired, replicate by replicate, and those to the",
        "leader leave its luck of having come out first uncorrected.",
        "`evenstep leaderboard --check` runs a tenth of the board again, another one each day. It fails when two policies",
        "whose intervals here are disjoint come out in the other order with disjoint intervals.",
    ]


def _seeds(table: Table) -> str:
    """A phrase on the seeds of the replicates, which begin at a workload's own ``--seed``, else at 0."""
    if any("--seed" in shlex.split(line.command) for line in table.workloads):
        many = counted(table.origin.seeds, "replicate")
        return f"with {many}, whose seeds begin at a workload's `--seed`, else at 0"
    return "with seed 0" if table.origin.seeds == 1 else f"with seeds 0 to {table.origin.seeds - 1}"


def _ranked(table: Table) -> list[str]:
    """Sentences that list the ranked policies: those at their defaults, then variants of them."""
    plain: list[str] = []
    variants: list[str] = []
    for policy in table.policies:
        options = policy.partition(":")[2].split(",")
        is_plain = all(option.partition("=")[0] in ("", "predictor") for option in options)
        (plain if is_plain and not policy.endswith("predictor=oracle") else variants).append(f"`{policy}`")
    return [f"At their defaults: {', '.join(plain)}.", f"Variants: {', '.join(variants) or 'no others'}."]


def _fewer(table: Table) -> str:
    """A remark on policies with fewer replicates, or left out on some workload; empty if every policy ran everywhere."""
    found: list[str] = []
    for policy in table.policies:
        cells = [cell for cell in table.cells if cell.policy == policy]
        missing = [line.name for line in table.workloads if line.name not in {cell.workload for cell in cells}]
        words = []
        if len(cells[0].digests) < table.origin.seeds:
            words.append(f"the first {len(cells[0].digests)}")
        if missing:
            words.append(f"not on {', '.join(missing)}")
        if words:
            found.append(f"`{policy}` {', '.join(words)}")
    return f" (slow ones fewer: {'; '.join(found)})" if found else ""


def _overall_words(table: Table) -> list[str]:
    groups = ([f"`{policy}`" for policy in group] for group in alike(table))
    return [
        "Ranks among the live policies, and their mean. A mean rank is a summary, no measure: it counts places, not how far",
        "apart they are, it weighs workloads as this list happens to, and every variant that is added moves the others.",
        "*level* counts the workloads on which the policy cannot be told from the leader there (paired interval across 0).",
        "Read the tables below for what matters on a workload like yours. Waits are in no rank: who starves long prompts",
        "may look even.",
        *(f"{', '.join(most)} and {last} decided alike in every run." for *most, last in groups),
    ]


def _overall_table(table: Table) -> list[str]:
    heads = [line.name for line in table.workloads]
    lines = [_row(["policy", "mean rank", "level", *heads]), _row(["---", *["---:"] * (2 + len(heads))])]
    for one in overall(table):
        note = "" if one.complete else " (where it ran)"
        ranks = [MISSING if rank is None else str(rank) for rank in one.ranks]
        lines.append(_row([f"`{one.policy}`", f"{one.mean_rank:.1f}{note}", str(one.level), *ranks]))
    return lines


def _workload(table: Table, line: WorkloadLine) -> list[str]:
    heading, factor, places = _RANKED[line.metric]
    others = _others(table, line)
    heads = ["rank", "policy", "it knows", heading, "behind the leader", *(name for name, _, _ in others)]
    lines = [_row(heads), _row(["---:", "---", "---", *["---:"] * (len(heads) - 3)])]
    for one in standings(table.of(line.name), line.metric):
        cells = [
            MISSING if one.rank is None else str(one.rank),
            f"`{one.cell.policy}`",
            "true lengths" if one.cell.oracle else one.cell.predictor or MISSING,
            _interval(one.value, factor, places),
            _behind(one, factor, places),
        ]
        for _, metric, size in others:
            found = one.cell.interval(metric)
            cells.append(short(None if found is None else size * found.value))
        lines.append(_row(cells))
    about = f"{line.about[:1].upper()}{line.about[1:]}. " if line.about else ""
    return [
        f"## {line.name}",
        "",
        f"{about}`predictor=live` is {line.predictor}. Again, for any policy:",
        "",
        "```text",
        f"{line.command} --policy NAME",
        "```",
        "",
        *lines,
        "",
    ]


def _others(table: Table, line: WorkloadLine) -> list[tuple[str, str, float]]:
    """(heading, metric, factor) of the columns after the ranking metric, if a run of the workload has a value."""
    columns = (*(_BELOW_COLUMNS if line.metric == BELOW else _SATURATED_COLUMNS), *_WAITS)
    known = {name for cell in table.of(line.name) for name, values in cell.values.items() if {*values} != {None}}
    return [one for one in columns if one[1] != line.metric and one[1] in known]


def _behind(one: Standing, factor: float, places: int) -> str:
    """The text of the paired difference to the leader, with ``level`` for a live policy whose interval contains 0."""
    if one.behind is None:
        return MISSING
    text = _interval(one.behind, factor, places, sign="+")
    return text if one.behind.is_clear or one.rank is None else f"{text}, level"


def _interval(found: Interval | None, factor: float, places: int, sign: str = "") -> str:
    """``value ± half`` as text, both times `factor`, with `places` decimals; `sign` is a format flag."""
    if found is None:
        return MISSING
    text = f"{factor * found.value:{sign},.{places}f}"
    return text if found.half is None else f"{text} ± {factor * found.half:,.{places}f}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
