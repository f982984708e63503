"""WAIT sec. 6.2, Fig. 13: Nested WAIT on ten types of unknown output lengths, 550 requests a second."""

from evenstep.experiments.papers.wait._families import QPS550, ten_types

experiment = ten_types(13, QPS550, "the paper's ratios, over a number where an iteration holds less; it prints no scale")
