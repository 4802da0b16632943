"""The proto check finds what it claims to find."""

import pytest

from scripts import lint_protos

GOOD = 'syntax = "proto3"; package a.v1; enum Rule { RULE_UNSPECIFIED = 0; } message M { uint32 base_len = 1; }'


def faults(tmp_path, text):
    (tmp_path / "a" / "v1").mkdir(parents=True)
    (tmp_path / "a" / "v1" / "a.proto").write_text(text)
    return [fault for file in lint_protos.descriptors(tmp_path) for fault in lint_protos.check_file(file)]


def test_a_good_file_has_no_fault(tmp_path):
    assert faults(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("good", "bad", "word"),
    [
        ("base_len", "baseLen", "snake_case"),
        ("message M", "message m_x", "CamelCase"),
        ("RULE_UNSPECIFIED", "NONE", "RULE_UNSPECIFIED"),
        ("= 1;", "= 2;", r"\[1\]"),
        ("a.v1", "b.v1", "folder"),
    ],
)
def test_each_rule_is_checked(tmp_path, good, bad, word):
    import re

    assert any(re.search(word, fault) for fault in faults(tmp_path, GOOD.replace(good, bad)))


def test_the_projects_own_files_are_well_formed():
    assert lint_protos.main() == 0
