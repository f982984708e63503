"""WAIT sec. 6.1, Fig. 7: throughput and latency with known output lengths, low demand."""

from evenstep.experiments.papers.wait import _families

experiment = _families.WAIT_LOW
