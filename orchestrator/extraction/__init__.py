"""Features of images and captions, computed in this process or by Ray workers, or imported from other programs."""
