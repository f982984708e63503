"""Throughput-optimal Figs. 2 and 5: the exact batches of a small instance under four engines' policies."""

from __future__ import annotations

import numpy as np

from evenstep import names
from evenstep.experiments import vocabulary as ex
from evenstep.experiments.papers.throughput._throughput import schedule
from evenstep.request import Trace

#: Fig. 5: batches the paper draws; ``Dp`` is D's prefill token.
FIG5 = {
    "vanilla-vllm": "{DpEp}{ABCD}{ABCE}{BC}{B}",
    "faster-transformer": "{ABC}{ABC}{BC}{B}{DpEp}{DE}",
    "sarathi": "{ABCDp}{ABCD}{BCEp}{BE}",
    "orca": "{ABDpEp}{ABCD}{BCE}{BC}",
}
#: Fig. 2: tokens of each batch.
FIG2 = (6, 4, 2)
LETTERS = "ABCDE"
_SOON = 0.5  # seconds: while the first batch runs


@ex.experiment("exact schedules of small instances", "Throughput-optimal Figs. 2, 5", most_traces=0)
def experiment(setting: ex.Setting) -> ex.Findings:
    found = {name: fig5(name) for name in FIG5}
    loads = fig2()
    return ex.Findings(
        rows=[
            *[ex.row(name, "batches of Fig. 5", "", [found[name].count("{")], own.count("{")) for name, own in FIG5.items()],
            *[ex.row("sarathi", f"tokens of batch {k + 1} of Fig. 2", "tokens", [n], FIG2[k]) for k, n in enumerate(loads)],
        ],
        claims=[
            *[ex.Claim(f"{name} runs {batches}", found[name] == batches, found[name]) for name, batches in FIG5.items()],
            ex.Claim("Fig. 2: token loads 6, 4 and 2", tuple(loads) == FIG2, ex.listed(loads)),
        ],
        constants=ex.constants("""
            Fig. 5 | b = 4; decode tokens A 2, B 4, C 3, D 1, E 1; one prefill token each | the paper's
            before | A, B and C have been prefilled; D and E arrive before the first batch shown | the batch that prefills A,
              B and C is not counted
            Fig. 2 | b = 6; request 1 decodes 2 tokens; prompts of 3 and 4, decode tokens 2 and 1 | the paper draws loads 6,
              4 and 2 and gives no lengths; these are the smallest that have them
            first token | by the first decode | the paper's count of tokens
        """),
        remark="every batch is as drawn; members stand here by letter, in the paper by phase",
        stands_in="nothing: the instances are the paper's",
        data={"policy": list(found), "batches": list(found.values()), "paper": list(FIG5.values())},
        draw=lambda figure: _draw(figure, found),
        size=(7.5, 3.2),
        intervals="The schedules are exact: no intervals.",
    )


def fig5(policy: str) -> str:
    """The batches of Fig. 5 under a policy, as in `FIG5`: ``{ABCDp}`` decodes A, B and C and prefills D.

    The first batch, which prefills A, B and C, is left out. Members are in order of their letters.
    """
    output = np.array([2, 4, 3, 1, 1])
    arrival = np.array([0.0, 0.0, 0.0, _SOON, _SOON])
    trace = Trace(np.ones(5, np.int64), output, arrival_s=arrival, name="Fig. 5", synthetic=True)
    batches = schedule(names.build("scheduling", policy), trace, token_budget=4)[1:]
    named = ([LETTERS[k] + ("" if batch[k][1] else "p") for k in sorted(batch)] for batch in batches)
    return "".join("{" + "".join(members) + "}" for members in named)


def fig2() -> list[int]:
    """Tokens of each batch of Fig. 2 under `sarathi`, without the first batch, which prefills request 1."""
    trace = Trace(
        np.array([1, 3, 4]), np.array([2, 2, 1]), arrival_s=np.array([0.0, _SOON, _SOON]), name="Fig. 2", synthetic=True
    )
    batches = schedule(names.build("scheduling", "sarathi"), trace, token_budget=6)[1:]
    return [sum(tokens for tokens, _ in batch.values()) for batch in batches]


def _draw(figure: ex.Figure, found: dict[str, str]) -> None:
    axes = figure.add_subplot(1, 1, 1)
    for line, batches in enumerate(found.values()):
        for place, members in enumerate(batches.strip("{}").split("}{")):
            mixed = "p" in members and len(members.replace("p", "")) > members.count("p")
            colour = ex.COLOURS[2 if mixed else 1 if "p" in members else 0]
            axes.barh(line, 0.9, left=place, color=colour, alpha=0.5)
            axes.text(place + 0.45, line, members, ha="center", va="center", fontsize=8)
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.set_xlabel("batch (decodes, prefills, both by colour)")
