"""Several trials trained as one stacked model."""
