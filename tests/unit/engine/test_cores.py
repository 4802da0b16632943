"""Cores that a process may use: a container's limit hides none of the machine's, but grants time for fewer."""

import pytest

from forerun.engine.cores import quota


@pytest.mark.parametrize(("limit", "cores"), [("max 100000", 64), ("400000 100000", 4), ("50000 100000", 1),
                                              ("250000 100000", 3), ("12800000 100000", 64)])  # fmt: skip
def test_a_containers_limit_is_rounded_up_to_whole_cores(tmp_path, limit, cores):
    (tmp_path / "cpu.max").write_text(limit + "\n")
    assert quota(tmp_path, 64) == cores


def test_without_a_limit_all_cores_are_there(tmp_path):
    assert quota(tmp_path, 64) == 64
