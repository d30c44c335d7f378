"""What people said about pairs that nobody annotated: which captions also describe which images, and what follows."""
