"""What is written is what was trained: the engine's logits are the student's."""

import shutil

import numpy as np
import pytest
import torch
from safetensors import safe_open

from forerun.engine import build, torch_setup
from forerun.engine.scheduler import Slice
from forerun.engine.sequence import Sequence
from forerun.training.export import export
from forerun.training.student import Student
from forerun.training.surgery import with_layers
from tests.support import quantised
from tests.unit.training import texts

IDS = [5, 9, 30, 12, 7, 40]


QUANTISED = {"gguf": quantised.q8_0, "int4": quantised.int4, "fp8": quantised.fp8_by_channel}


@pytest.fixture(params=["untied", "tied", *QUANTISED])
def target(request, tmp_path, tiny_pair):
    model = texts.load(tiny_pair.target)
    if request.param == "tied":
        model.config.tie_word_embeddings = True
        model.tie_weights()
    folder, plain = tmp_path / request.param, tmp_path / "plain"
    model.bfloat16().save_pretrained(plain)
    QUANTISED.get(request.param, shutil.copytree)(plain, folder)
    return folder


def exported(target, folder, ids):
    """A student whose weights are unlike the target's, and its folder."""
    student = Student(with_layers(target, (1,), texts.CPU), ids, torch.float32)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in student.weights().values():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
            weight.copy_(weight.bfloat16())  # what a file in bfloat16 can hold
    folder.mkdir()
    export(student, folder, 64, "# A draft")
    return student


def engine_logits(folder, target):
    """`[IDS, head] float32` from the engine."""
    torch_setup.prepare(1)
    settings = build.EngineSettings(folder, "draft", precision="fp32", cache_tokens=256, embedding_from=target)
    engine = build.build(settings, lambda step: None, lambda error: None)
    sequence = Sequence(list(IDS))
    sequence.request(len(IDS), len(IDS))
    engine.loop.table.reserve(sequence, len(IDS))
    return engine.loop._runner.run([Slice(sequence, len(IDS))]), engine.model.head_ids


def student_logits(student):
    with torch.no_grad():
        hidden = student.module.base_model(input_ids=torch.tensor([IDS])).last_hidden_state[0]
        return student.head.logits(hidden).numpy()


def test_the_engine_computes_the_students_logits(tmp_path, target):
    ids = np.array([0, 1, 2, 5, 8, 20, 33, 63])
    student = exported(target, tmp_path / "draft", ids)
    logits, head_ids = engine_logits(tmp_path / "draft", target)
    assert np.array_equal(head_ids, ids)
    assert np.allclose(logits, student_logits(student), atol=1e-4)


def test_a_whole_vocabulary_needs_no_file_of_its_own(tmp_path, target):
    student = exported(target, tmp_path / "draft", np.arange(64))
    logits, head_ids = engine_logits(tmp_path / "draft", target)
    assert head_ids is None
    assert np.allclose(logits[:, :64], student_logits(student), atol=1e-4)


def test_what_the_target_has_is_not_in_the_file(tmp_path, target):
    exported(target, tmp_path / "draft", np.arange(64))
    with safe_open(tmp_path / "draft" / "model.safetensors", framework="pt") as file:
        names, dtypes = list(file.keys()), {file.get_tensor(name).dtype for name in file.keys()}  # noqa: SIM118
    assert "model.embed_tokens.weight" not in names
    assert ("lm_head.weight" in names) == (target.name != "tied")
    assert dtypes == {torch.bfloat16}
    assert {path.name for path in (tmp_path / "draft").iterdir()} == {"config.json", "model.safetensors", "README.md"}


def test_a_later_export_replaces_the_earlier(tmp_path, target):
    student = exported(target, tmp_path / "draft", np.arange(32))
    with torch.no_grad():
        for weight in student.weights().values():
            weight.mul_(2.0)
    export(student, tmp_path / "draft", 64, "# Another")
    logits, _ = engine_logits(tmp_path / "draft", target)
    assert np.allclose(logits, student_logits(student), atol=1e-4)
    assert (tmp_path / "draft" / "README.md").read_text() == "# Another"
