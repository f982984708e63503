"""WAIT sec. 6.1, Fig. 7: throughput and latency with known output lengths, low demand."""

from evenstep.experiments.papers.wait._families import LOW, known_lengths

experiment = known_lengths("low", 7, LOW)
