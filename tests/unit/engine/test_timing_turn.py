"""Services take turns, and a turn that cannot be had stops nobody."""

import itertools
import os
import tempfile
import threading
import time

import pytest

from forerun.engine import timing_turn


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_turns_follow_each_other():
    spans = []

    def take():
        with timing_turn.taken():
            start = time.monotonic()
            time.sleep(0.1)
            spans.append((start, time.monotonic()))

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spans.sort()
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def test_one_that_does_not_end_is_waited_for_a_while():
    with timing_turn.taken():
        start = time.monotonic()
        with timing_turn.taken(max_wait_s=0.2):
            assert 0.2 <= time.monotonic() - start < 5


@pytest.mark.parametrize("there", ["link", "folder", "nothing"])
def test_where_there_can_be_no_turn_it_begins_at_once(tmp_path, monkeypatch, there):
    path = tmp_path / f"forerun-timing-{os.getuid()}"
    if there == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif there == "folder":
        path.mkdir()
    else:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "no such folder"))
    with timing_turn.taken(max_wait_s=60):
        pass
    assert not (tmp_path / "elsewhere").exists()
