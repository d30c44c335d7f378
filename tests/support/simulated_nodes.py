"""A Ray cluster of several nodes in the processes of one machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from orchestrator.journal.lock import make_scratch


@contextmanager
def simulated_nodes(nodes: int, cpus: int, *, token: bool = False) -> Iterator[Any]:
    """Start so many nodes of so many CPUs for the length of a ``with`` block, which gets Ray's cluster.

    Its address is written where nobody looks for it. It wants no token, and neither may whoever joins it: a driver that
    has one refuses the calls of a head that has none, which takes the driver for dead then. With ``token`` it wants the
    one of this process, which drivers have that were started from it.
    """
    from ray.cluster_utils import Cluster

    with make_scratch() as scratch, pytest.MonkeyPatch.context() as patch:
        (scratch / "ray").mkdir()
        patch.setenv("RAY_TMPDIR", str(scratch))
        if not token:
            patch.setenv("RAY_AUTH_TOKEN_PATH", str(scratch / "no_token"))
            for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_MODE"):
                patch.delenv(name, raising=False)
        node = {"num_cpus": cpus, "object_store_memory": 80 * 2**20, "temp_dir": str(scratch)}
        made = Cluster(initialize_head=True, connect=False, head_node_args={**node, "include_dashboard": False})
        try:
            for _ in range(nodes - 1):
                made.add_node(**node)
            yield made
        finally:
            made.shutdown()
