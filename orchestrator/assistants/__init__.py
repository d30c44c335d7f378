"""Serve the product's answers to assistants by the Model Context Protocol."""
