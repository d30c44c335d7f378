"""Read results of any program as runs of candidates, which ``results`` compares."""
