"""Datasets: read from the field's formats, checked whole, prepared once, then memory-mapped.

``load_dataset(name, data_root)`` of ``trainables.data.dataset`` is the way in. Only ``batches`` needs torch.
"""
