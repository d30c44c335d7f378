"""Several processes that extract features, each with its own copy of the backbone.

Any number of processes can work on the shards of one folder; here they are processes of this machine. ``_work`` is what
an actor of a cluster would run: it needs the plan, its shards, the folder, and somewhere to send what it has done.
"""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait

from trainables.data.extract import Encoder, Plan, ShardResult, extract_shards
from trainables.errors import UserError


def extract_in_processes(
    plan: Plan, shards: Sequence[int], load_encoder: Callable[[], Encoder], workers: int, threads: int
) -> Iterator[ShardResult]:
    """Deal the shards out to processes and yield each result when it is there.

    Args:
        plan: What to compute.
        shards: Which of its shards.
        load_encoder: Called once in each process; must be picklable.
        workers: Processes, >= 1.
        threads: Threads of each, >= 1.

    Raises:
        UserError: What a worker raised.
        RuntimeError: If a worker died.
    """
    context = multiprocessing.get_context("spawn")
    readers, processes = [], []
    try:
        for worker in range(min(workers, len(shards))):
            reader, writer = context.Pipe(duplex=False)
            arguments = (plan, shards[worker::workers], load_encoder, threads, writer)
            process = context.Process(target=_work, args=arguments, daemon=True)
            process.start()
            # The worker has the only open end now, so its death is seen as the end of the pipe.
            writer.close()
            readers.append(reader)
            processes.append(process)
        yield from _receive(readers)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _receive(readers: list[Connection]) -> Iterator[ShardResult]:
    """Yield what workers send, until each has said that it is done."""
    while readers:
        for reader in [reader for reader in readers if reader in wait(readers)]:
            try:
                message = reader.recv()
            except EOFError:
                raise RuntimeError("a worker died; its finished shards are kept, run the command again") from None
            if isinstance(message, UserError):
                raise message
            if message is None:
                readers.remove(reader)
            else:
                yield message


def _work(
    plan: Plan, shards: Sequence[int], load_encoder: Callable[[], Encoder], threads: int, writer: Connection
) -> None:
    """Extract some shards in a process of its own; it ends after the shard at which nobody listens any more."""
    import torch

    torch.set_num_threads(threads)
    try:
        for result in extract_shards(plan, shards, load_encoder(), threads):
            writer.send(result)
        writer.send(None)
    except UserError as error:
        writer.send(error)
    except BrokenPipeError:
        return
