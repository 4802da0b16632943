"""A machine without a GPU never gets a CUDA build by accident."""

import pytest

from scripts import install_torch


def test_the_pin_is_read_from_the_project():
    assert install_torch.pinned_requirement(install_torch.ROOT / "pyproject.toml").startswith("torch==")


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"version": "2.13.0+cpu", "requires_dist": ["nvidia-cublas==13"]}, True),
        (
            {"version": "2.13.0", "requires_dist": ["sympy>=1.13", "nvidia-cublas==13; platform_system == 'Linux'"]},
            False,
        ),
        ({"version": "2.13.0", "requires_dist": ["cuda-bindings"]}, False),
        ({"version": "2.13.0", "requires_dist": ["sympy>=1.13"]}, True),
        ({"version": "2.13.0"}, True),
    ],
)
def test_a_cpu_build_is_told_by_its_version_or_its_needs(metadata, expected):
    assert install_torch.is_cpu_build(metadata) is expected


@pytest.fixture
def pip(monkeypatch):
    calls = []
    monkeypatch.setattr(install_torch.subprocess, "run", lambda command, **_: calls.append(command))
    monkeypatch.setattr(install_torch, "is_installed", lambda requirement: False)
    monkeypatch.setattr(install_torch, "has_nvidia", lambda: False)
    return calls


def test_where_pip_would_take_cuda_the_cpu_index_is_added(pip, monkeypatch):
    monkeypatch.setattr(install_torch, "would_choose_cpu", lambda requirement: False)
    install_torch.main("auto")
    assert pip[0][-3].endswith("+cpu")
    assert pip[0][-1] == install_torch.CPU_INDEX


def test_where_pip_would_take_cpu_it_is_left_alone(pip, monkeypatch):
    monkeypatch.setattr(install_torch, "would_choose_cpu", lambda requirement: True)
    install_torch.main("cpu")
    assert "--extra-index-url" not in pip[0]


def test_a_gpu_gets_pips_own_choice(pip, monkeypatch):
    monkeypatch.setattr(install_torch, "has_nvidia", lambda: True)
    install_torch.main("auto")
    assert pip[0][-1].startswith("torch==")


def test_an_unknown_choice_is_refused(pip):
    with pytest.raises(SystemExit, match="TORCH=gpu"):
        install_torch.main("gpu")
