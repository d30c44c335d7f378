"""People's judgements of image-caption pairs that are not annotated, and metrics that use them."""
