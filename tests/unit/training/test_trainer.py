"""Training makes the draft agree more, by the clock, and goes on after a stop as if there had been none."""

import itertools

import pytest
import torch

from forerun.errors import ConfigError
from forerun.training import checkpoint
from forerun.training.evaluation import evaluate
from forerun.training.trainer import Course, Trainer, rate
from forerun.training.vocabulary import columns_of
from tests.unit.training import texts

NUM_STEPS = 60
COURSE = Course(batch_tokens=600, learning_rate=5e-3, seed=0)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def text(tmp_path_factory, tiny_pair):
    return texts.corpus(tmp_path_factory.mktemp("text"), texts.documents(tiny_pair.target, 400))


def trainer(tiny_pair, text, dtype=torch.float32):
    """One of a spoilt target, whose clock ticks a second a look, so that a budget of n seconds is n steps."""
    ticks = itertools.count()
    student = texts.student(tiny_pair.target, text, layers=(0, 1), dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in student.weights().values():
            weight += 0.15 * torch.randn(weight.shape, generator=generator)
    return Trainer(student, text, len(text), 64, COURSE, clock=lambda: float(next(ticks)))


def held_out(text):
    return [text.document(place) for place, held in enumerate(text.held_out) if held]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_loss_falls_and_agreement_rises_on_prompts_held_out(tiny_pair, text, dtype):
    ours = trainer(tiny_pair, text, dtype)
    columns = columns_of(ours.student.ids, 64)
    before = evaluate(ours.student, held_out(text), columns)
    results = list(ours.train(NUM_STEPS))
    after = evaluate(ours.student, held_out(text), columns)
    assert len(results) == NUM_STEPS
    assert results[-1].loss < 0.7 * results[0].loss
    assert after.agreement > before.agreement + 0.05
    assert after.overlap > before.overlap + 0.05
    assert after.served_overlap > before.served_overlap + 0.05


def test_embedding_and_head_stay_the_targets(tiny_pair, text):
    ours = trainer(tiny_pair, text)
    list(ours.train(3))
    target = texts.load(tiny_pair.target)
    assert torch.equal(ours.student.module.get_input_embeddings().weight, target.get_input_embeddings().weight)
    assert torch.equal(ours.student.module.lm_head.weight, target.lm_head.weight)


def test_a_resumed_training_ends_in_the_same_state(tmp_path, tiny_pair, text):
    whole = trainer(tiny_pair, text)
    list(whole.train(30))
    first = trainer(tiny_pair, text)
    for _ in itertools.islice(first.train(30), 17):
        pass
    checkpoint.save(tmp_path / "checkpoint.pt", first.state())
    second = trainer(tiny_pair, text)
    second.load_state(checkpoint.load(tmp_path / "checkpoint.pt"))
    second.elapsed_s += 1  # the tick between the last step and the stop
    list(second.train(30))
    assert second.num_steps == whole.num_steps == 30
    for name, weight in whole.student.weights().items():
        assert torch.equal(weight, second.student.weights()[name]), name


def test_documents_that_came_later_change_nothing(tmp_path, tiny_pair):
    some = texts.documents(tiny_pair.target, 100)
    text = texts.corpus(tmp_path, some[:60])
    student = texts.student(tiny_pair.target, text)
    ours = Trainer(student, text, 60, 64, COURSE)
    text.add(some[60:])
    again = Trainer(student, text, 60, 64, COURSE)
    for each in (ours, again):
        next(each.train(1))
    assert again.num_epochs == ours.num_epochs > 0


def test_a_spent_budget_trains_no_more(tiny_pair, text):
    ours = trainer(tiny_pair, text)
    list(ours.train(3))
    assert list(ours.train(3)) == []


def test_the_rate_rises_then_falls_to_nothing():
    rates = [rate(step / 1000) for step in range(1001)]
    peak = rates.index(max(rates))
    assert 0 < rates[0] < 0.2
    assert max(rates) == pytest.approx(1.0, abs=1e-3)
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert rates[-1] == pytest.approx(0.0, abs=1e-9)


def test_a_checkpoint_is_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {"step": 1})
    monkeypatch.setattr(checkpoint.torch, "save", lambda content, file: file.write(b"half") and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        checkpoint.save(path, {"step": 2})
    assert checkpoint.load(path) == {"step": 1}


def test_a_broken_checkpoint_says_what_to_do(tmp_path):
    path = tmp_path / "checkpoint.pt"
    assert checkpoint.load(path) is None
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ConfigError, match="delete it"):
        checkpoint.load(path)
