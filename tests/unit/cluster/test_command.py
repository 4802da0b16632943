"""The command line of `forerun ray`."""

import pytest

from forerun import cli


def test_its_flags_are_explained(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["ray", "up", "--help"])
    explained = capsys.readouterr().out
    assert "--tensor-parallel" in explained
    assert "FORERUN_REGISTRY_PORT" in explained
    assert cli.main(["ray"]) == 0
    assert "down" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"), [(["sideways"], "neither up nor down"), (["up", "--targets", "0"], "--targets")]
)
def test_what_cannot_be_is_refused_before_ray_is_asked(capsys, arguments, told):
    assert cli.main(["ray", *arguments]) == 2
    assert told in capsys.readouterr().err
