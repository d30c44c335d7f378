"""What one trial is: data, models, losses, COCOS, metrics and the training loop, in PyTorch alone.

Nothing in this package knows Ray, Optuna or MLflow; it imports and trains where they are not installed.
"""
