"""Which trial comes next in a study. The only package that imports Optuna."""
