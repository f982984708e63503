"""Compare two routing policies on the bundled trace, from Python."""

from __future__ import annotations

import evenstep


def main() -> None:
    trace = evenstep.read_trace("sample:azure-conv").head(400)
    cluster = evenstep.Cluster(workers=4, slots=16, pool=64)
    comparison = evenstep.compare(trace, ["jsq", "br-0"], cluster=cluster, seeds=3)
    for result in comparison.policies:
        print(f"{result.policy:<6} {100 * result.mean('idle_time_share'):.2f} % of time at the barrier")
    gain = comparison.policies[1].versus_first["idle_time_share"]
    low, high = 100 * gain.low, 100 * gain.high
    print(f"difference {100 * gain.value:+.2f} points, 95 % interval {low:+.2f} to {high:+.2f}")


if __name__ == "__main__":
    main()
