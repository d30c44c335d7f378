"""Scheduled reruns of baselines: suites of cells, each compared with what was accepted before."""
