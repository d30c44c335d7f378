#!/usr/bin/env python
"""``make-bucket.py NAME...``: make the buckets that are missing, as soon as the store at AWS_ENDPOINT_URL answers."""

import sys
import time

import boto3
from botocore.exceptions import BotoCoreError, ClientError

SECONDS = 120


def make(name: str, deadline: float) -> None:
    """Make a bucket unless it is there."""
    store = boto3.client("s3")
    while True:
        try:
            if name not in {bucket["Name"] for bucket in store.list_buckets()["Buckets"]}:
                store.create_bucket(Bucket=name)
            return
        except (BotoCoreError, ClientError) as error:
            if time.monotonic() > deadline:
                sys.exit(f"bucket {name}: {error}")
            time.sleep(2)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        make(each, time.monotonic() + SECONDS)
