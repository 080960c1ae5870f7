"""The checkpoint policies, by their name in a job file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.services.worker.checkpoint.policies.aligned import Aligned
from holdfast.services.worker.checkpoint.policies.idle_minmax import IdleMinMax
from holdfast.services.worker.checkpoint.policies.idle_roundrobin import IdleRoundRobin
from holdfast.services.worker.checkpoint.policies.individual import Individual
from holdfast.services.worker.checkpoint.policies.paused import Paused
from holdfast.services.worker.checkpoint.policies.policy import Policy
from holdfast.services.worker.checkpoint.policies.refresh import Refresh
from holdfast.services.worker.checkpoint.policies.sweep import Sweep
from holdfast.services.worker.checkpoint.policies.synchronous import Synchronous
from holdfast.services.worker.checkpoint.policies.whole_worker import WholeWorker

DEFAULT = "sweep"

POLICIES: Mapping[str, Callable[[], tuple[Policy, ...]]] = {
    DEFAULT: lambda: (Paused(), Sweep(), Refresh()),
    "synchronous": lambda: (Paused(), Synchronous()),
    "individual": lambda: (Paused(), Individual()),
    "aligned": lambda: (Aligned(),),
    IdleMinMax.name: lambda: (Paused(), IdleMinMax()),
    IdleRoundRobin.name: lambda: (Paused(), IdleRoundRobin()),
    WholeWorker.name: lambda: (Paused(), WholeWorker()),
}
"""Functions that create the policies of a job, by name.

All but `aligned` also capture when a paused job comes to rest; `aligned` captures the same batches in every unit. Under
`sweep` a unit with a suspended copy also captures between two sweeps.
"""
