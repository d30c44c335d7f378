#!/usr/bin/env bash
# Reads secrets from files into the environment of the command: NAME from the file that NAME_FILE names. Only for those
# that have no option of their own to take a file, and listed, because *_FILE means other things elsewhere.
set -euo pipefail

for name in PGPASSWORD MLFLOW_AUTH_ADMIN_PASSWORD MLFLOW_FLASK_SERVER_SECRET_KEY MLFLOW_TRACKING_PASSWORD \
  AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY ICR_DRIVER_PASSWORD ICR_WEBHOOK_URL; do
  file="${name}_FILE"
  if [ -n "${!file:-}" ]; then
    value="$(<"${!file}")"
    [ -n "$value" ] || { echo "entrypoint: $file=${!file} is empty" >&2; exit 2; }
    export "$name=$value"
    unset "$file"
  fi
done

exec "$@"
