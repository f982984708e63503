"""``evenstep predict evaluate``: predictors of output lengths learn from a trace's first part and are judged on the rest."""

from __future__ import annotations

import argparse

from evenstep.cli.parts import flags, outputs


class Predict:
    summary = "judge predictors of output lengths on a trace"
    description = (
        "evaluate lets predictors learn from the first part of a trace and judges them on the rest. It prints how well\n"
        "they tell which requests leave within H steps (ROC-AUC, Brier score), and the error of the expected steps of\n"
        "those. It also prints how many predictions are sure enough for a policy to count on (pass the gate), and how many\n"
        "outputs lie in their 10-90 % interval."
    )
    examples = (
        "evenstep predict evaluate sample:azure-conv",
        "evenstep predict evaluate trace.csv --predictor survival --predictor memorised:buckets=8 --horizon 40",
        "evenstep predict evaluate trace.csv --predictor learned --report predictors.html",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="evaluate", required=True)
        judged = verbs.add_parser("evaluate", help="learn from the first part of a trace, judge on the rest")
        flags.add_reading(judged, "--trace-format")
        text = "a predictor to judge; may be given many times (default survival, memorised)"
        flags.add_many(judged, "--predictor", "NAME[:KEY=VALUE,...]", text, dest="predictors", default=None)
        text = "steps to look ahead; may be given many times (default 20, 40, 80)"
        flags.add_many(judged, "--horizon", "H", text, dest="horizons", type=int, default=None)
        flags.add_values(judged, {"--train-share X": ("share that is learned from (default 0.5)", float, 0.5)})
        flags.add_format(judged)
        judged.add_argument("--report", metavar="FILE.html", help="write a page with reliability curves")

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.predict.evaluation import evaluate
        from evenstep.report import prediction
        from evenstep.workload.replicate import replicate

        outputs.check_report(args.report)
        found = evaluate(
            replicate(flags.workload_of(args).source, 0, args.seed),
            args.predictors or ["survival", "memorised"],
            args.horizons or [20, 40, 80],
            train_share=args.train_share,
        )
        told = [outputs.write_report(args.report, prediction.page(found, args.command_line))] if args.report else []
        return outputs.answer(args, prediction.json_object(found), [*prediction.text_lines(found), *told])


command = Predict()
