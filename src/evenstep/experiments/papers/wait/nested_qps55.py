"""WAIT sec. 6.2, Fig. 12: Nested WAIT on ten types of unknown output lengths, 55 requests a second."""

from evenstep.experiments.papers.wait import _families

experiment = _families.NESTED_QPS55
