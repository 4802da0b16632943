"""`forerun distill` from a target's folder to a draft that the services take, stopped and taken up on the way."""

import json
import urllib.request

import numpy as np
import pytest
import torch
from rich.console import Console

from forerun import cli
from forerun.config import parse
from forerun.engine import torch_setup
from forerun.training import checkpoint, command
from forerun.training.config import DistillConfig
from forerun.training.corpus import Corpus
from forerun.training.display import Display

QUICK = (
    "--layers=0,1",
    "--vocab=48",
    "--top-k=16",
    "--tokens=6000",
    "--max-tokens=24",
    "--sequences=16",
    "--batch-tokens=2048",
    "--precision=fp32",
    "--compile=off",
    "--threads=1",
    "--learning-rate=0.002",
    "--data-share=0.8",
)
PROMPTS = "".join(f"{first} {second}\n" for first in "abcdefghijklmnop" for second in "qrstuvwxyz")


@pytest.fixture(autouse=True)
def own_environment(monkeypatch):
    monkeypatch.delenv("FORERUN_COMPILE", raising=False)


@pytest.fixture(scope="module")
def prompts(tmp_path_factory):
    path = tmp_path_factory.mktemp("prompts") / "prompts.txt"
    path.write_text(PROMPTS)
    return path


def flags(pair, out, prompts, *more):
    """Of a run that takes seconds."""
    return [f"--target={pair.target}", f"--out={out}", f"--prompts={prompts}", *QUICK, *more]


def written(out):
    """The documents of a finished or interrupted run, by their own numbers."""
    origin = json.loads((out / "data" / "origin.json").read_text())
    corpus = Corpus(out / "data", origin, 64)
    return {document.index: document for document in map(corpus.document, range(len(corpus)))}


class StopAfter:
    """An interruption that is asked for when it was looked at `looks` times."""

    def __init__(self, looks):
        self._left = looks

    @property
    def asked(self):
        self._left -= 1
        return self._left < 0


def run(arguments, looks):
    """Whether the run came to its end, when it is interrupted after so many looks."""
    torch_setup.prepare(1)
    config = parse(DistillConfig, arguments, "forerun distill", environ={})
    with Display(Console(quiet=True)) as display:
        return command.distill(config, 1, display, StopAfter(looks))


@pytest.fixture(scope="module")
def distilled(tmp_path_factory, tiny_pair, prompts):
    """A draft of the tiny target."""
    out = tmp_path_factory.mktemp("distilled") / "draft"
    assert not run(flags(tiny_pair, out, prompts, "--minutes=5"), looks=420)
    assert command.main(flags(tiny_pair, out, prompts, "--minutes=0.001")) == 0  # its time is over: nothing is left
    return out


def test_the_folder_holds_a_checkpoint_a_vocabulary_and_a_readme(distilled):
    config = json.loads((distilled / "config.json").read_text())
    assert config["num_hidden_layers"] == 2
    assert len(np.load(distilled / "vocab.npy")) == 48
    readme = (distilled / "README.md").read_text()
    assert "forerun draft --model draft --target-model tiny-target" in readme
    assert "nan" not in readme


def test_enough_was_written_and_the_laws_are_kept(distilled):
    documents = written(distilled)
    assert sum(document.num_scored for document in documents.values()) >= 6000
    assert all(document.top_ids.shape[1] == 16 for document in documents.values())
    assert {document.temperature for document in documents.values()} >= {0.0, np.float32(0.7), 1.0}
    greedy = [document for document in documents.values() if document.temperature == 0]
    assert all(np.array_equal(d.tokens[d.scored], d.top_ids[:, 0]) for d in greedy)


def test_the_services_take_the_draft_for_its_target(distilled, tiny_pair, fleet):
    draft = fleet.draft(distilled, tiny_pair.target)
    target = fleet.target(tiny_pair.target)
    gateway = fleet.gateway(tiny_pair.target, target.address, [draft.address])
    body = {"model": "tiny-target", "prompt": "c t", "max_tokens": 40, "temperature": 0}
    answer = ask(gateway.url, {**body, "speculative": {"num_draft_tokens": 4}})
    assert answer["speculative"]["draft_acceptance_rate"] > 0.2
    alone = ask(gateway.url, {**body, "speculative": {"enabled": False}})
    assert alone["choices"][0]["text"] == answer["choices"][0]["text"]


def ask(url, body):
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_an_interrupted_run_goes_on_in_both_phases(tmp_path, tiny_pair, prompts):
    out = tmp_path / "draft"
    ours = flags(tiny_pair, out, prompts, "--minutes=5")
    assert not run(ours, looks=30)
    first = written(out)
    assert 30 <= len(first) < 100
    assert not (out / "checkpoint.pt").exists()
    assert not run(ours, looks=420)
    second = written(out)
    assert sum(document.num_scored for document in second.values()) >= 6000
    assert set(first) < set(second)
    assert all(np.array_equal(first[index].tokens, second[index].tokens) for index in first)
    steps = checkpoint.load(out / "checkpoint.pt")["num_steps"]
    assert (out / "model.safetensors").exists()
    assert not run(ours, looks=5)
    assert checkpoint.load(out / "checkpoint.pt")["num_steps"] == steps + 5
    assert set(written(out)) == set(second)


def test_a_text_that_was_interrupted_is_written_as_it_would_have_been(tmp_path, tiny_pair, prompts, distilled):
    """Noise belongs to a text and its place, so what else is in the batch, or came before a stop, does not matter."""
    run(flags(tiny_pair, tmp_path / "draft", prompts, "--minutes=5", "--sequences=3"), looks=20)
    ours, theirs = written(tmp_path / "draft"), written(distilled)
    both = set(ours) & set(theirs)
    assert len(both) >= 20
    for index in both:
        length = min(len(ours[index].tokens), len(theirs[index].tokens))
        assert np.array_equal(ours[index].tokens[:length], theirs[index].tokens[:length])


def test_another_draft_may_learn_from_the_same_text(tmp_path, tiny_pair, prompts, distilled):
    before = set(written(distilled))
    other = flags(tiny_pair, tmp_path / "draft", prompts, "--minutes=5", "--layers=1", f"--data={distilled / 'data'}")
    assert not run(other, looks=5)
    assert json.loads((tmp_path / "draft" / "config.json").read_text())["num_hidden_layers"] == 1
    assert set(written(distilled)) == before
    assert not (tmp_path / "draft" / "data").exists()


@pytest.mark.parametrize(
    ("flag", "named"),
    [
        ("--layers=1", "layers"),
        ("--vocab=40", "vocab"),
        ("--start={draft}", "start"),
        ("--top-k=8", "top_k"),
        ("--prompts=", "prompts"),
        ("--target={draft}", "target"),
    ],
)
def test_a_folder_goes_on_with_the_flags_it_was_begun_with(distilled, tiny_pair, prompts, capsys, flag, named):
    assert cli.main(["distill", *flags(tiny_pair, distilled, prompts, flag.format(draft=tiny_pair.draft))]) == 2
    assert named in (message := capsys.readouterr().err)
    assert "choose another folder" in message


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (("--layers=7",), "the target has 2"),
        (("--target=no-such-model",), "no-such-model"),
        (("--prompts=no-such-file",), "no-such-file"),
        (("--device=cuda",), "--device cuda"),
        (("--tokens=1", "--sequences=1"), "too few"),
        (("--out=",), "--out is missing"),
    ],
)
def test_what_cannot_work_is_told_in_a_line(tmp_path, tiny_pair, prompts, capsys, changes, told):
    if "cuda" in str(changes) and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert cli.main(["distill", *flags(tiny_pair, tmp_path / "draft", prompts, "--minutes=1", *changes)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("forerun distill: ")
    assert told in error
    assert error.count("\n") == 1
