"""``evenstep fit step-time`` fits batch-time laws to a CSV log of iterations.

It prints each fitted law's R^2, then the best law (or that of ``--law``) as text for ``--batch-time``; if the R^2 of this
law is below 0.8, it raises an `InputError` instead.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from evenstep.cli.parts import flags, outputs
from evenstep.wording import counted


class FitLaws:
    summary = "fit batch-time laws to a log of iterations"
    description = (
        "step-time fits four laws to a CSV log of iterations: affine-kv, token-budget, long-context and regression. The\n"
        "log has the column seconds and, where known, kv, tokens, requests, chunk_squares, crossed, decode_context. The\n"
        "vLLM plug-in writes such a log, steps-0.csv. The command prints how much of the variation each law explains, then\n"
        "the best law, or that of --law, as text for --batch-time. It refuses a fit that explains less than 80 %."
    )
    examples = (
        "evenstep fit step-time steps-0.csv",
        "evenstep fit step-time iterations.csv --plot residuals.svg --format json",
        "evenstep fit step-time iterations.csv --law token-budget",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="step-time", required=True)
        fitted = verbs.add_parser("step-time", help="fit batch-time laws to a log of iterations")
        fitted.add_argument("file", metavar="LOG.csv", help="a line an iteration, plain or gzipped")
        fitted.add_argument("--law", metavar="NAME", help="take this law, not the one that fits best")
        fitted.add_argument("--plot", metavar="FILE", help="draw measured and fitted seconds and residuals, as .svg or .png")
        flags.add_format(fitted)

    def run(self, args: argparse.Namespace) -> int:
        from evenstep.cost.fitting import LEAST, checked, fit_laws, read_log
        from evenstep.measure.output_file import replacing
        from evenstep.report.fit_plots import residual_plot

        plot = None if args.plot is None else Path(args.plot)
        outputs.check_report(args.plot, "--plot", ".svg", ".png")
        fitted = fit_laws(read_log(Path(args.file)))
        best = checked(args.file, fitted, args.law)
        if plot is not None:
            with replacing(plot) as file:
                file.write(residual_plot(fitted, best, plot.suffix[1:].lower()))
        fits = [
            {"law": f.law, "r_squared": f.r_squared, "refused": f.is_poor, "bic": f.score, "options": dict(f.options)}
            for f in fitted.fits
        ]
        value = {"iterations": best.seconds.size, "batch_time": best.text, "left_out": dict(fitted.left_out), "fits": fits}
        lines = [f"{counted(best.seconds.size, 'iteration')} of {args.file}"]
        for fit in fitted.fits:
            said = f"refused: below {LEAST}" if fit.is_poor else fit.text
            lines.append(f"{fit.law:<13} R^2 {fit.r_squared:.4f}  {said}")
        lines += [f"{law:<13} not fitted: {why}" for law, why in fitted.left_out.items()]
        lines += [f"--batch-time {best.text}", *([f"plot: {plot.resolve()}"] if plot is not None else [])]
        return outputs.answer(args, value, lines)


command = FitLaws()
