"""The hash is the CRC-32 of ids as little-endian uint32, whole or in parts."""

import struct
import zlib

from hypothesis import given
from hypothesis import strategies as st

from forerun.transcript_hash import transcript_hash

IDS = st.lists(st.integers(0, 2**32 - 1), max_size=20)


@given(IDS, IDS)
def test_the_hash_of_parts_is_that_of_the_whole(head, tail):
    whole = zlib.crc32(struct.pack(f"<{len(head) + len(tail)}I", *head, *tail))
    assert transcript_hash(head + tail) == transcript_hash(tail, transcript_hash(head)) == whole


def test_of_nothing_it_is_0():
    assert transcript_hash([]) == 0
