"""Who may write where code is loaded from, and what a killed process leaves behind."""

import os

import pytest

from forerun.errors import ConfigError
from forerun.models.cache_folder import check_trusted, clear_unfinished, locked, unfinished


@pytest.fixture
def folder(tmp_path):
    tmp_path.chmod(0o700)
    return tmp_path


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2700])
def test_what_its_owner_alone_may_write_is_trusted(folder, mode):
    folder.chmod(mode)
    check_trusted(folder)


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777])
def test_what_others_may_write_is_refused_with_a_way_out(folder, mode):
    folder.chmod(mode)
    with pytest.raises(ConfigError, match=rf"others may write it \(mode {mode:o}\).*chmod go-w {folder}"):
        check_trusted(folder)


def test_a_file_is_looked_at_like_a_folder(folder):
    (folder / "code.so").touch()
    (folder / "code.so").chmod(0o666)
    with pytest.raises(ConfigError, match=r"code\.so"):
        check_trusted(folder, folder / "code.so")


def test_what_somebody_else_owns_is_refused_unless_it_is_root(folder, monkeypatch):
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    if owner == 0:
        check_trusted(folder)
        os.chown(folder, 4321, 4321)
    with pytest.raises(ConfigError, match=r"belongs to user \d+, not to this one or root.*\$FORERUN_CACHE"):
        check_trusted(folder)


def test_what_was_left_unfinished_goes_when_its_maker_is_gone(folder):
    with locked(folder / "a.lock"), locked(folder / "b.lock"):
        _of_a, of_b, of_nobody = (unfinished(folder, key) for key in "abc")
        (folder / "unfinished-older").mkdir()
        (of_nobody / "file").touch()
        clear_unfinished(folder, "a")  # which holds the lock of a itself
        assert {path.name for path in folder.iterdir()} == {"a.lock", "b.lock", of_b.name}
    clear_unfinished(folder, "d")
    assert not of_b.exists()
