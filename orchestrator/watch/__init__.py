"""Pages about experiments that are served while the experiments run; nothing on the pages controls anything."""
