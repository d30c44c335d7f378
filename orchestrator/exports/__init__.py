"""Writes experiments for other programs: tables, event files of TensorBoard, offline runs of Weights & Biases.

``orchestrator/studies/export.py`` writes the storage that Optuna's own tools open. Nothing reads an export back.
"""
