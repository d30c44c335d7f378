#!/usr/bin/env bash
# join-ray.sh COMMAND...: makes this container a node of the Ray cluster at RAY_ADDRESS that runs no trials, then runs
# the command. A search must run on a node, because it keeps its journal in its own process; let it --address auto.
set -euo pipefail

ray start --address="${RAY_ADDRESS:?host:port of the head}" --num-cpus=0 --num-gpus=0 \
  --object-store-memory=268435456 --disable-usage-stats
exec "$@"
