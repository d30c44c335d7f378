#!/usr/bin/env bash
# make-secrets.sh [FOLDER]: makes the secrets that compose.yaml reads; what is there already stays as it is.
# The folder is closed to others (0700). The files in it are not, because a container that runs as another user sees
# the file alone, with the mode that it has here.
set -euo pipefail

folder="${1:-$(dirname "$0")/secrets}"
mkdir -p "$folder"
chmod 0700 "$folder"
cd "$folder"

random() { head -c 24 /dev/urandom | od -An -vtx1 | tr -d ' \n'; }

write() {
  [ -s "$1" ] && return
  (umask 077 && printf %s "$2" > ".$1")
  chmod 0444 ".$1"
  mv ".$1" "$1"
  echo "made $folder/$1"
}

for name in postgres_password mlflow_admin_password mlflow_driver_password mlflow_secret_key ray_token s3_access_key \
  s3_secret_key s3_mlflow_access_key s3_mlflow_secret_key s3_searches_access_key s3_searches_secret_key; do
  write "$name" "$(random)"
done

identity() { # NAME PREFIX ACTION...: an identity of the store with the keys in PREFIX_access_key and PREFIX_secret_key
  local name="$1" prefix="$2" actions
  shift 2
  actions="$(printf '"%s", ' "$@")"
  printf '{"name": "%s", "actions": [%s], "credentials": [{"accessKey": "%s", "secretKey": "%s"}]}' \
    "$name" "${actions%, }" "$(<"${prefix}_access_key")" "$(<"${prefix}_secret_key")"
}

write s3_identities.json "{\"identities\": [
  $(identity buckets s3 Admin Read Write List Tagging),
  $(identity mlflow s3_mlflow Read:mlflow Write:mlflow List:mlflow Tagging:mlflow),
  $(identity searches s3_searches Read:searches Write:searches List:searches Tagging:searches)]}"
if [ ! -s s3_grpc_cert.pem ] || [ ! -s s3_grpc_key.pem ]; then
  rm -f s3_grpc_cert.pem s3_grpc_key.pem
  key="$(openssl genrsa 2048 2> /dev/null)"
  write s3_grpc_cert.pem "$(openssl req -x509 -new -key <(printf '%s' "$key") -days 3650 -subj /CN=icr-s3)"
  write s3_grpc_key.pem "$key"
fi
