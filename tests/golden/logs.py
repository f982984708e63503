"""The recorded decision logs: storms of events, a log a seed, each under a policy of its own."""

from __future__ import annotations

from pathlib import Path

from tests.dispatch.storm import POLICIES, Storm

from evenstep.dispatch.log.file import LogFile

SEEDS = range(24)
MOMENTS = 500


class Busy(Storm):
    """A storm in which more requests come and end than anything else, and two workers stay."""

    def step(self) -> None:
        pick = self.random.random()
        if len(self.specs) < 2:
            self.add("decode")
        elif pick < 0.2:
            self.arrive()
        elif pick < 0.5 and self.decoding:
            self.finish(self.random.choice(sorted(self.decoding)))
        else:
            super().step()


def name_of(seed: int) -> str:
    """The file of a seed's log."""
    return f"storm-{seed:02}.evlog"


def record(seed: int, folder: Path) -> None:
    """Write the log of one storm."""
    path = folder / name_of(seed)
    path.unlink(missing_ok=True)
    file = LogFile(path)
    storm = Busy(seed, split=seed % 3 == 0, log=file, policy=POLICIES[seed % len(POLICIES)])
    for _ in range(MOMENTS):
        storm.step()
    storm.calm()
    file.close()
