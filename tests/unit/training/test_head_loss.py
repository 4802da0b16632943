"""The chunked loss is the plain one, value and gradient, and each part of it measures what its name says."""

import pytest
import torch

from forerun.training import head_loss as module
from forerun.training.head import Head
from forerun.training.head_loss import compare, head_loss
from forerun.training.loss import Laws, cross_entropy, distance, overlaps

G, H, V, K = 40, 12, 50, 6


def problem(softcap=0.0, bias=True, seed=0):
    """Hidden states, a head, columns of which some are unknown, and probabilities."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(G, H, generator=generator, requires_grad=True)
    head = Head(torch.randn(V, H, generator=generator), torch.randn(V, generator=generator) if bias else None, softcap)
    probs, columns = torch.randn(G, V + 10, generator=generator).softmax(1).topk(K, dim=1)
    columns = torch.where(columns < V, columns, -1)
    assert (columns < 0).any()
    return hidden, head, columns, probs


def plain_laws(hidden, head, columns, probs, num_served=16):
    """The same laws from whole matrices."""
    logits = hidden @ head.weight.T + (0.0 if head.bias is None else head.bias)
    if head.softcap:
        logits = head.softcap * torch.tanh(logits / head.softcap)
    taken = logits.gather(1, columns.clamp_min(0)).masked_fill(columns < 0, float("-inf"))
    return Laws(probs, taken, logits.logsumexp(1), logits.topk(num_served, dim=1).values)


@pytest.mark.parametrize("softcap", [0.0, 4.0])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("progress", [0.0, 0.3, 1.0])
def test_value_and_gradient_are_those_of_the_plain_loss(monkeypatch, softcap, bias, progress):
    monkeypatch.setattr(module, "CHUNK", 16)
    hidden, head, columns, probs = problem(softcap, bias)
    plain = distance(plain_laws(hidden, head, columns, probs), progress).sum()
    (expected,) = torch.autograd.grad(plain, hidden)
    totals = head_loss(hidden, head, columns, probs, lambda laws: distance(laws, progress))
    (found,) = torch.autograd.grad(3 * totals.loss, hidden)
    assert totals.loss.item() == pytest.approx(plain.item(), rel=1e-5)
    assert torch.allclose(found, 3 * expected, rtol=1e-4, atol=1e-6)


def test_overlap_is_one_minus_total_variation_where_everything_is_kept():
    generator = torch.Generator().manual_seed(1)
    p, logits = torch.randn(G, V, generator=generator).softmax(1), torch.randn(G, V, generator=generator)
    laws = Laws(p, logits, logits.logsumexp(1), logits.topk(V, dim=1).values)
    variation = (p - logits.softmax(1)).abs().sum(1) / 2
    assert torch.allclose(overlaps(laws).whole, 1 - variation, atol=1e-6)
    assert torch.allclose(overlaps(laws).served, 1 - variation, atol=1e-6)


def test_the_law_that_is_served_is_cut_and_sums_to_one():
    logits = torch.tensor([[3.0, 2.0, 1.0, 0.0]])
    served = logits[:, :2]
    q = served.softmax(1)[0]
    p = torch.tensor([[0.1, 0.2, 0.3, 0.4]])
    expected = min(0.1, q[0].item()) + min(0.2, q[1].item())
    assert overlaps(Laws(p, logits, logits.logsumexp(1), served)).served.item() == pytest.approx(expected)


def test_tokens_that_the_draft_does_not_know_cannot_overlap():
    logits = torch.tensor([[0.0, float("-inf")]])
    laws = Laws(torch.tensor([[0.5, 0.5]]), logits, torch.tensor([0.0]), torch.tensor([[0.0]]))
    assert overlaps(laws).whole.item() == 0.5
    assert cross_entropy(laws).item() == 0.0


def test_comparing_gives_the_sums_of_training():
    hidden, head, columns, probs = problem()
    totals = head_loss(hidden, head, columns, probs, lambda laws: distance(laws, 0.5))
    parts = list(compare(hidden.detach(), head, columns, probs))
    assert sum(part.overlaps.whole.sum().item() for part in parts) == pytest.approx(totals.overlap.item(), rel=1e-5)
    assert sum(part.overlaps.served.sum().item() for part in parts) == pytest.approx(
        totals.served_overlap.item(), rel=1e-5
    )
    assert sum(part.agrees.sum().item() for part in parts) == totals.num_agreeing.item()
    plain = plain_laws(hidden, head, columns, probs)
    favourites = (hidden @ head.weight.T + head.bias).argmax(1)
    assert totals.num_agreeing.item() == (favourites == columns[:, 0]).sum().item()
    assert totals.overlap.item() == pytest.approx(overlaps(plain).whole.sum().item(), rel=1e-5)
