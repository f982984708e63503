"""evenstep evens out LLM serving: it chooses which worker decodes which request, so that no worker waits at a barrier."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> the module that holds it; resolved at first use, so that `import evenstep` stays light.
_HOMES = {
    "Cluster": "evenstep.sim.cluster.simulation",
    "EvenstepError": "evenstep.errors",
    "HOLD": "evenstep.routing.view",
    "InputError": "evenstep.errors",
    "Linear": "evenstep.cost.linear",
    "NetworkOrders": "evenstep.report.network_orders",  # what `NetworkRun` shows itself as
    "RoutingDecision": "evenstep.routing.view",
    "RoutingView": "evenstep.routing.view",
    "Run": "evenstep.measure.records",
    "Trace": "evenstep.request",
    "compare": "evenstep.experiments.compare.compare",
    "network_lines": "evenstep.report.network_orders",  # what `NetworkRun.plot` calls
    "read_trace": "evenstep.workload.reading",
    "simulate": "evenstep.sim.cluster.simulation",
    "trace_of_columns": "evenstep.workload.readers.columns",  # what `Trace.from_columns` calls
}
__all__ = [
    "HOLD",
    "Cluster",
    "EvenstepError",
    "InputError",
    "Linear",
    "RoutingDecision",
    "RoutingView",
    "Run",
    "Trace",
    "compare",
    "read_trace",
    "simulate",
]

if TYPE_CHECKING:
    from evenstep.cost.linear import Linear
    from evenstep.errors import EvenstepError, InputError
    from evenstep.experiments.compare.compare import compare
    from evenstep.measure.records import Run
    from evenstep.request import Trace
    from evenstep.routing.view import HOLD, RoutingDecision, RoutingView
    from evenstep.sim.cluster.simulation import Cluster, simulate
    from evenstep.workload.reading import read_trace


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evenstep' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
