"""What happened in an experiment, and who may write it down."""
