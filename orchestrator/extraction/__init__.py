"""Features from pictures, computed in this process or by Ray workers."""
