"""Writes experiments for other programs: tables, event files of TensorBoard, offline runs of Weights & Biases.

``orchestrator/studies/export.py`` writes the storage that Optuna's own tools open. Nothing reads an export back.
"""

from orchestrator.environment import set_for_wandb

# Before a module of this package can import wandb.
set_for_wandb()
