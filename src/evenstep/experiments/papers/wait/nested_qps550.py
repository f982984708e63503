"""WAIT sec. 6.2, Fig. 13: Nested WAIT on ten types of unknown output lengths, 550 requests a second."""

from evenstep.experiments.papers.wait import _families

experiment = _families.NESTED_QPS550
