#!/usr/bin/env bash
# ray-job.sh [SUITE]: the rerun as a job of a Ray cluster, on its head; call it from whatever scheduler you have.
# RAY_API_SERVER_ADDRESS is the head's dashboard (http://HEAD:8265), RAY_AUTH_MODE=token with ~/.ray/auth_token lets you in.
# The job's environment is the head's: buckets, tracking server and password are set where the head is started. OUTPUT
# is a folder there that outlives it. Ends with the rerun, 0 when all is well and 1 when not; the log says which.
set -euo pipefail

suite="${1:-scenes-quick}"
ray job submit --address "${RAY_API_SERVER_ADDRESS:?http://HEAD:8265}" --submission-id "regress-$(basename "$suite" .yaml)-$(date -u +%Y%m%dT%H%M%SZ)" \
  -- orchestrator regress "$suite" --if-due 24h --require-accepted --address auto --storage "${STORAGE:?s3://bucket/prefix}" --output "${OUTPUT:-/runs}"
