"""How the processes that train many trials at once treat the memory that they free."""

KEEP_FREED_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**31),
}
"""Variables with which the C library keeps up to 2 GiB that a process frees, for its next step of the same sizes.

By default the C library gives the tensors of many trials back to the kernel after each step, and the kernel fills the
memory of the next step with zeros first, which took a quarter of the time of 64 stacked heads on a CPU. The training of
one trial gained nothing. Only glibc reads the variables, when a process starts.
"""
