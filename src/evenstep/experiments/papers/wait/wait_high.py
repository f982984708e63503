"""WAIT sec. 6.1, Fig. 8: throughput and latency with known output lengths, high demand."""

from evenstep.experiments.papers.wait import _families

experiment = _families.WAIT_HIGH
