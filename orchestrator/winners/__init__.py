"""What becomes of selected trials: test metrics, weight files, packed champions."""
