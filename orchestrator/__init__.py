"""How thousands of trials run: search, tracking and verdicts. The only package that imports Ray, Optuna and MLflow."""
