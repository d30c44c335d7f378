"""Several Ray workers that extract features, each with its own copy of the backbone.

Any number of workers can compute the shards of one folder, because each shard depends on its images alone and its file
appears whole. A worker reports each finished shard; a shard that a dying worker leaves is computed by the next call.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any, cast

import ray
from ray.exceptions import RayError, RayTaskError

from orchestrator.extraction.feature_files import KEPT
from orchestrator.tuner.runtime import RayLostError, ray_runtime, run_watched
from trainables.data.extract import Encoder, ExtractionPlan, ShardResult, extract_shards
from trainables.errors import UserError, reason_of


class WorkerDiedError(UserError):
    """A worker that was killed, or ran out of memory."""

    exit_code = 1


def on_own_ray(work: Callable[[], None], scratch: Path, folder: Path) -> None:
    """Run ``deal_out`` with its arguments, in a thread of its own, with a Ray that ends with it.

    ``scratch`` is a directory of this process alone, for Ray; an error names ``folder``, that of the features.

    Raises:
        UserError: If a worker raised an error or died.
        RayLostError: If a process of Ray itself died.
        KeyboardInterrupt: If Ctrl-C, or a SIGTERM that is handled like it, ended the wait; Ray is then killed.
    """
    with ray_runtime(scratch) as own:
        try:
            lost = run_watched(work, own, lambda: None)
        except KeyboardInterrupt:
            # Killed, for Ray may have got the signal too, and a Ray that ends by itself ends this process with it.
            own.kill()
            raise
    if lost:
        raise RayLostError(folder, lost, KEPT)


def deal_out(
    todo: Sequence[tuple[ExtractionPlan, Sequence[int]]],
    load_encoders: Callable[[], Mapping[str, Encoder]],
    on_result: Callable[[ShardResult], None],
    *,
    workers: int,
    threads: int,
    gpus: bool,
) -> None:
    """Distribute shards over workers, and hand on each result as soon as it is there.

    ``todo`` has the open shards of each plan. Each worker has ``threads`` CPUs, and calls ``load_encoders``, which must
    be picklable, once: an encoder for the first kind of each plan. With ``gpus`` it gets a
    GPU, or a part of a GPU, where there are GPUs.
    """

    # The function carries its arguments. As objects of the driver, Ray's library would try to recover them from a dead
    # raylet, see `orchestrator.tuner.actor.trial_actor`.
    def work(parts: Sequence[tuple[ExtractionPlan, Sequence[int]]]) -> Iterator[ShardResult | UserError]:
        import torch

        torch.set_num_threads(threads)
        try:
            encoders = load_encoders()
            for plan, shards in parts:
                yield from extract_shards(plan, shards, encoders[plan.kinds[0]], threads)
        except UserError as error:
            # Yielded, because Ray would wrap a raised error.
            yield error

    there = int(ray.cluster_resources().get("GPU", 0)) if gpus else 0
    share = 1 / ceil(workers / there) if there else 0
    task = ray.remote(work).options(num_returns="streaming", num_cpus=threads, num_gpus=share, max_retries=0)
    dealt = [[(plan, shards[worker::workers]) for plan, shards in todo] for worker in range(workers)]
    for result in _receive([task.remote(parts) for parts in dealt if any(shards for _, shards in parts)]):
        on_result(result)


def _receive(streams: list[Any]) -> Iterator[ShardResult]:
    """Yield the results of all workers in the order in which they arrive."""
    while streams:
        (stream, *_), streams = cast(tuple[list[Any], list[Any]], ray.wait(streams, num_returns=1))
        try:
            result: ShardResult | UserError = ray.get(next(stream))
        except StopIteration:
            continue
        except RayTaskError:
            raise
        except RayError as error:
            raise WorkerDiedError(
                f"a worker died: {reason_of(error)}; {KEPT}: give the same command again, "
                "with fewer --workers if the memory is short"
            ) from error
        if isinstance(result, UserError):
            raise result
        streams.append(stream)
        yield result
