"""What other programs get of an experiment: tables, event files of TensorBoard, offline runs of Weights & Biases.

The storage that Optuna's own tools open is written by ``orchestrator/studies/export.py``. The journal stays the truth:
nothing reads an export back.
"""
