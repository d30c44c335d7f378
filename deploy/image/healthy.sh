#!/usr/bin/env bash
# Is this container healthy? A server answers at HEALTH_URL; a search or rerun can write where its journal is.
set -euo pipefail

if [ -n "${HEALTH_URL:-}" ]; then
  exec wget --quiet --tries=1 --timeout=5 --output-document=/dev/null "$HEALTH_URL"
fi
rm "$(mktemp "$ORCHESTRATOR_OUTPUT/.healthy.XXXXXX")"
