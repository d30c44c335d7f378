"""Test metrics, weight files and packed models of selected trials."""
