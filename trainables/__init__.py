"""One trial: data, models, losses, COCOS, metrics and the training loop, in PyTorch.

This package imports and trains without Ray, Optuna and MLflow.
"""
