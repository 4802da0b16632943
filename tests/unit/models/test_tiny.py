"""The tiny pairs have the power that the tests built on them count on."""

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from forerun.models.tokenizer_files import read_model_text
from tests.support import tiny


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


def law(model, ids):
    with torch.no_grad():
        return model(ids).logits.softmax(-1)


def some_ids(vocab_size=64):
    return torch.randint(0, vocab_size, (8, 64), generator=torch.Generator().manual_seed(9))


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


@pytest.mark.parametrize("vocab_size", [32, 48, 64])
def test_laws_are_peaked_and_the_draft_is_about_0_3_away(tmp_path, vocab_size):
    pair = tiny.build_pair(tmp_path, vocab_size=vocab_size)
    ids = some_ids(vocab_size)
    p, q = law(load(pair.target), ids), law(load(pair.draft), ids)
    entropy = -(p * p.log()).sum(-1).mean().item()
    total_variation = ((p - q).abs().sum(-1) / 2).mean().item()
    assert 0.9 < entropy < 1.6
    assert 0.2 < total_variation < 0.4


def test_a_token_far_back_changes_the_law(tiny_pair):
    model, ids = load(tiny_pair.target), some_ids()
    changed = ids.clone()
    changed[:, 32] = (changed[:, 32] + 7) % 64
    distance = (law(model, ids) - law(model, changed)).abs().sum(-1).mean(0) / 2
    assert distance[:32].max() < 1e-5
    assert distance[60] > 0.05


def test_the_order_of_earlier_tokens_changes_the_law(tiny_pair):
    model, ids = load(tiny_pair.target), some_ids()
    swapped = ids.clone()
    swapped[:, [3, 20]] = ids[:, [20, 3]]
    distance = (law(model, ids) - law(model, swapped)).abs().sum(-1).mean(0) / 2
    assert distance[63] > 0.02


def test_padding_leaves_the_real_rows_alone_and_wins_where_it_leaks(tiny_pair, tiny_padded_pair):
    ids = some_ids()
    with torch.no_grad():
        plain, padded = load(tiny_pair.target)(ids).logits, load(tiny_padded_pair.target)(ids).logits
    assert padded.shape[-1] == 72
    assert torch.equal(plain, padded[..., :64])
    assert (padded.argmax(-1) >= 64).float().mean() > 0.2


def test_padded_and_plain_have_one_fingerprint_and_mismatched_has_two(
    tiny_pair, tiny_padded_pair, tiny_mismatched_pair
):
    plain, padded = read_model_text(tiny_pair.target), read_model_text(tiny_padded_pair.draft)
    assert plain.fingerprint == padded.fingerprint
    assert plain.vocab_size == padded.vocab_size == 64
    assert read_model_text(tiny_mismatched_pair.draft).fingerprint != plain.fingerprint


def test_text_of_characters_that_span_tokens_survives(tiny_pair):
    tokenizer = AutoTokenizer.from_pretrained(tiny_pair.target)
    text = "the é漢😀 sea."
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert len(ids) > len(text)
    assert tokenizer.decode(ids) == text
