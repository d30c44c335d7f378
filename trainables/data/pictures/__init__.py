"""Image files: decoding, crops, pixels."""
