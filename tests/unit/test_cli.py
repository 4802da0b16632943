"""The command line runs what it names and explains what it does not know."""

import subprocess
import sys

import pytest

from forerun import __version__, cli


def test_without_a_command_the_commands_are_listed(capsys):
    assert cli.main([]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in (*cli.SERVICES, *cli.TOOLS))


def test_the_version_is_printed(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


def test_an_unknown_command_is_refused_and_the_known_are_named(capsys):
    assert cli.main(["serve"]) == 2
    assert "'serve'" in (message := capsys.readouterr().err)
    assert "gateway" in message


def test_a_bad_environment_value_names_its_variable(capsys, monkeypatch):
    monkeypatch.setenv("FORERUN_HTTP_PORT", "eighty")
    assert cli.main(["up"]) == 2
    assert "FORERUN_HTTP_PORT" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["up", "chat", "bench", "distill", "plan", "draft", "target", "gateway"])
def test_every_command_explains_its_flags(name):
    command = [sys.executable, "-m", "forerun.cli", name, "--help"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "FORERUN_" in run.stdout
