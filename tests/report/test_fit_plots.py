"""The picture of a fitted law."""

import numpy as np

from evenstep.cost.fitting import fit_laws
from evenstep.report.fit_plots import residual_plot


def test_the_picture_shows_fit_and_residuals():
    kv = np.arange(30.0)
    fitted = fit_laws({"kv": kv, "seconds": 1 + kv + np.sin(kv)})
    drawn = residual_plot(fitted, fitted.fits[0], "svg")
    assert drawn.startswith(b"<?xml") and drawn == residual_plot(fitted, fitted.fits[0], "svg")
    assert residual_plot(fitted, fitted.fits[0], "png").startswith(b"\x89PNG")
