"""Who is in each batch of a run."""

import numpy as np

from evenstep.experiments.papers.throughput._throughput import Watched, schedule
from evenstep.request import Trace
from evenstep.scheduling.policies.faster_transformer import FasterTransformer
from evenstep.scheduling.policies.sarathi import Sarathi


def test_a_schedule_names_requests_tokens_and_phase():
    batches = schedule(Sarathi(), Trace(np.array([3]), np.array([1])), token_budget=2)
    assert batches == [{0: (2, False)}, {0: (1, False)}, {0: (1, True)}]


def test_a_watched_policy_keeps_what_its_policy_keeps():
    assert Watched(FasterTransformer()).memory_size == 1
