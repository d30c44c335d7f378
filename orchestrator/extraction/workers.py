"""Several Ray workers that extract features, each with its own copy of the backbone.

Any number of workers can compute the shards of one folder, for each shard depends on its images alone and appears
whole. A worker streams what it has done; what it works on when it dies is computed by the next call.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, cast

import ray
from ray.exceptions import RayError, RayTaskError

from orchestrator.tuner.runtime import ray_runtime
from trainables.data.extract import Encoder, Plan, ShardResult, extract_shards
from trainables.errors import UserError


class WorkerDiedError(UserError):
    """A worker that was killed, or ran out of memory."""

    exit_code = 1


@dataclass(frozen=True)
class Crew:
    """Who works.

    Attributes:
        workers: At a time, >= 1.
        threads: CPUs of each, >= 1.
        gpus: Whether Ray gives each a GPU, or a part of one, where there are any.
    """

    workers: int
    threads: int
    gpus: bool


def extract_on_workers(
    plan: Plan, shards: Sequence[int], load_encoder: Callable[[], Encoder], crew: Crew, scratch: Path
) -> Iterator[ShardResult]:
    """Deal the shards out to workers and yield each result when it is there.

    Args:
        plan: What to compute.
        shards: Which of its shards.
        load_encoder: Called once in each worker; must be picklable.
        crew: Who works.
        scratch: Directory of this process alone, for Ray.

    Raises:
        UserError: What a worker raised, or that it died.
    """
    with ray_runtime(scratch):
        gpus = int(ray.cluster_resources().get("GPU", 0)) if crew.gpus else 0
        share = 1 / ceil(crew.workers / gpus) if gpus else 0
        work = ray.remote(_work).options(num_returns="streaming", num_cpus=crew.threads, num_gpus=share, max_retries=0)
        shared = ray.put(plan)
        dealt = [part for worker in range(crew.workers) if (part := shards[worker :: crew.workers])]
        yield from _receive([work.remote(shared, part, load_encoder, crew.threads) for part in dealt])


def _receive(streams: list[Any]) -> Iterator[ShardResult]:
    """Yield what workers send, whoever is first, until each has sent all."""
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
                f"a worker died: {str(error).splitlines()[0]}; finished shards are kept: give the same command again, "
                "with fewer --workers if the memory is short"
            ) from error
        if isinstance(result, UserError):
            raise result
        streams.append(stream)
        yield result


def _work(
    plan: Plan, shards: Sequence[int], load_encoder: Callable[[], Encoder], threads: int
) -> Iterator[ShardResult | UserError]:
    """Extract some shards in a worker; what a person can mend is sent, because Ray would wrap it."""
    import torch

    torch.set_num_threads(threads)
    try:
        yield from extract_shards(plan, shards, load_encoder(), threads)
    except UserError as error:
        yield error
