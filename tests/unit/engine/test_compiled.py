"""A compilation that is cut short leaves nothing that stays; what others may write to is not loaded."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forerun.engine import compiled
from forerun.engine.compiled import Recipe
from forerun.engine.quant import bf16, native_linear
from forerun.errors import ConfigError
from forerun.models.cache_folder import check_trusted, clear_unfinished

WAIT_S = 60
COMPILE = """
import sys
from pathlib import Path
from forerun.engine.compiled import Recipe, load
load(Recipe(Path(sys.argv[1]), "bf16", 1))
"""


def until(there, process=None):
    """What `there` gives as soon as it is true."""
    deadline = time.monotonic() + WAIT_S
    while not (found := there()):
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None
        time.sleep(0.02)
    return found


def processes_of(folder):
    """Ids of those that have the folder in their command."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] if str(folder).encode() in path.read_bytes() else []
        except OSError:
            continue
    return found


def test_a_start_that_is_killed_ends_its_compiler_and_the_next_one_cleans_up(tiny_pair, tmp_path):
    environ = {**os.environ, "FORERUN_CACHE": str(tmp_path)}
    starting = subprocess.Popen([sys.executable, "-c", COMPILE, str(tiny_pair.target)], env=environ)
    (left,) = until(lambda: list((tmp_path / "compiled").glob("unfinished-*")), starting)
    until(lambda: processes_of(left), starting)
    starting.kill()
    starting.wait()
    until(lambda: not processes_of(left))

    assert left.is_dir()
    clear_unfinished(left.parent, "another")
    assert not left.exists()


@pytest.mark.parametrize("where", [".", "..", compiled.PACKAGE, compiled.FACTS])
def test_what_others_may_write_to_is_not_loaded(tiny_pair, tmp_path, monkeypatch, where):
    monkeypatch.setenv("FORERUN_CACHE", str(tmp_path))
    recipe = Recipe(tiny_pair.target, "bf16", 1)
    folder = compiled.compiled_folder(recipe)
    folder.mkdir(mode=0o700)
    (folder / compiled.FACTS).write_text("{}")
    (folder / compiled.PACKAGE).touch()
    (folder / where).resolve().chmod(0o777)
    with pytest.raises(ConfigError, match="others may write it"):
        compiled.load(recipe)


def test_what_is_compiled_is_its_users_alone_whatever_their_umask(tiny_pair, tmp_path, monkeypatch, lax_umask):
    def child(death_signal, module_flag, module, made, *recipe):
        return ["/bin/sh", "-c", f"cd '{made}' && touch {compiled.PACKAGE} {compiled.FACTS} && mkdir inductor"]

    monkeypatch.setattr(compiled, "tethered", child)
    folder = tmp_path / "key"
    compiled._compile_into(folder, Recipe(tiny_pair.target, "bf16", 1))
    check_trusted(folder, folder / compiled.PACKAGE, folder / compiled.FACTS)


def test_a_graph_that_was_compiled_without_our_kernel_is_not_taken_for_one_with_it(tiny_pair, monkeypatch):
    def keys():
        return [Recipe(tiny_pair.target, precision, 1).key() for precision in ("int8", "int4", "bf16")]

    for module, name in ((native_linear, "serves"), (bf16, "pays")):
        monkeypatch.setattr(module, name, lambda: True)
    with_it = keys()
    monkeypatch.setattr(bf16, "pays", lambda: False)
    assert [one == other for one, other in zip(with_it, keys(), strict=True)] == [True, True, False]
    monkeypatch.setattr(native_linear, "serves", lambda: False)
    assert not set(keys()) & set(with_it)
