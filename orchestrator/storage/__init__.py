"""Bytes that outlive a machine: folders, buckets, checkpoints and datasets in them."""
