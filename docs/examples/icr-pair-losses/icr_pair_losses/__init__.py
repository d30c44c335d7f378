"""A loss and a model for icr-orchestrator."""
