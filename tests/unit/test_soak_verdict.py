"""The soak names whatever must not be: controls, since a good run never shows that it would."""

import pytest

from tests.soak.__main__ import faults_of
from tests.soak.gauges import growth

GOOD = {
    "faults": 9, "finished": 90, "left": 5, "lost": 0, "late": 0, "changed": 0, "still_held": {},
    "memory_growth": {"gateway": 1.04}, "files_more": {"gateway": 2},
}  # fmt: skip


def test_a_clean_run_passes():
    assert faults_of(GOOD) == []


@pytest.mark.parametrize(
    "bad",
    [
        {"lost": 1}, {"late": 1}, {"changed": 1}, {"faults": 0}, {"finished": 0}, {"still_held": {"draft": "1 block"}},
        {"memory_growth": {"gateway": 1.06}}, {"files_more": {"gateway": 30}},
    ],
    ids=str,
)  # fmt: skip
def test_control_each_fault_is_named(bad):
    assert len(faults_of(GOOD | bad)) == 1


def test_growth_compares_the_end_with_the_time_after_warming_up():
    assert growth([50, 60, 100, 100, 100, 100, 100, 100, 110, 110]) == 110 / 100
