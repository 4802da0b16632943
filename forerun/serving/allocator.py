"""glibc's malloc hands large freed arrays back to the kernel; a service that allocates them every step keeps them."""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP_BYTES = 256 << 20
_LARGEST_MMAP_THRESHOLD = 32 << 20


def keep_freed_memory() -> None:
    """Laws and draws over 49k ids get 2-3 times faster; without effect under another C library."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES)
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
