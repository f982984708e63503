"""WAIT sec. 6.2, Fig. 12: Nested WAIT on ten types of unknown output lengths, 55 requests a second."""

from evenstep.experiments.papers.wait._families import QPS55, ten_types

experiment = ten_types(
    12,
    QPS55,
    "the paper's ratios, over ten for a tenth of the rate, and less where an iteration holds less; it prints no scale. "
    "Rounded they break eq. 10 (4/7 is below 0.6515), so part of what is lost is the rounding",
)
