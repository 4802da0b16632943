"""Which memory is laid on huge pages: what a model's weights lie in, and nothing of files or others."""

import mmap

from forerun.engine import huge_pages
from forerun.engine.huge_pages import MIN_BYTES

MAPS = f"""\
7f0000000000-{0x7F0000000000 + MIN_BYTES:x} rw-p 00000000 00:00 0
7f1000000000-{0x7F1000000000 + MIN_BYTES - 4096:x} rw-p 00000000 00:00 0
7f2000000000-{0x7F2000000000 + MIN_BYTES:x} r-xp 00000000 00:00 0
7f3000000000-{0x7F3000000000 + MIN_BYTES:x} rw-p 00000000 08:01 1234                     /models/a file.safetensors
7f4000000000-{0x7F4000000000 + MIN_BYTES:x} rw-s 00000000 00:01 5678                     /dev/zero (deleted)
"""


def test_only_large_private_memory_of_no_file_is_chosen():
    assert list(huge_pages.large_mappings(MAPS)) == [(0x7F0000000000, 0x7F0000000000 + MIN_BYTES)]


def test_asking_changes_nothing_that_is_stored():
    with mmap.mmap(-1, MIN_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory[5_000_000:5_000_005] = b"there"
        huge_pages.ask()
        assert memory[5_000_000:5_000_005] == b"there"
        assert memory[0] == memory[-1] == 0
