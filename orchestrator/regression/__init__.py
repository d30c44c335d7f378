"""Scheduled reruns of baselines: suites of cells, each compared with the accepted runs of the cell."""
