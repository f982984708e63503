"""WAIT sec. 6.1, Fig. 8: throughput and latency with known output lengths, high demand."""

from evenstep.experiments.papers.wait._families import HIGH, known_lengths

experiment = known_lengths("high", 8, HIGH)
