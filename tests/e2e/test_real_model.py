"""The bundled pair in real processes: what speculation says is what the target says.

FORERUN_PROMPTS may name a folder of *.jsonl files (`turns` or `prompt` in each line) for the full run; conftest.py
hands it on as TEST_PROMPTS.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from forerun.models.bundled import DRAFT_NAME, NAME
from forerun.v1.target_pb2 import PromptLogprobs
from tests.support.generate import gateway_stub, generate
from tests.support.processes import Fleet
from tests.support.wire import GREEDY, TargetLine, alone, clients, drafted

pytestmark = pytest.mark.timeout(900)

PROMPTS = (
    "List three facts about the Moon.",
    "Write a short poem about rain on a tin roof.",
    "def fibonacci(n):",
    "Translate to French: The cat sleeps on the chair.",
)
NUM_FULL, FULL_TOKENS = 24, 128
FULL_TIMEOUT_S = 3600  # minutes of a core in fp32, and others may use it too
K = 4
MARGIN = 0.5  # nats: bf16 logits around 16 to 32 are multiples of 1/8, so this is a few units in the last place
MAX_FLIPS = 0.05  # of all tokens


def sizes(num_prompts, num_tokens):
    """The size of the default run, and that of the full one."""
    full = pytest.param(NUM_FULL, FULL_TOKENS, marks=[pytest.mark.full, pytest.mark.timeout(FULL_TIMEOUT_S)])
    return pytest.mark.parametrize(("num_prompts", "num_tokens"), [(num_prompts, num_tokens), full])


class Pair:
    """Target and draft of one precision."""

    def __init__(self, fleet, *flags):
        precision = ("--threads", "1", "--metrics-port", "0", "--cache-tokens", "16384", *flags)
        self.target = fleet.target(NAME, precision=precision).address
        self.draft = fleet.draft(DRAFT_NAME, NAME, precision=precision).address


@pytest.fixture
def own_fleet():
    """Processes of one test alone: three real pairs at once would fill a small machine."""
    fleet = Fleet()
    yield fleet
    fleet.close()


@pytest.fixture(scope="module")
def encode(bundled_model):
    """Text → ids of a chat turn."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(bundled_model)

    def ids(text):
        turn = [{"role": "user", "content": text}]
        rendered = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
        return tokenizer.encode(rendered, add_special_tokens=False)

    return ids


@sizes(2, 24)
async def test_fp32_text_is_the_same_with_and_without_speculation(own_fleet, encode, num_prompts, num_tokens):
    """Case 9: three processes, greedy and seeded, K = 4 and K chosen by the gateway."""
    pair = Pair(own_fleet, "--precision", "fp32")
    gateway = own_fleet.gateway(NAME, pair.target, (pair.draft,))
    num_accepted = 0
    async with gateway_stub(gateway.address) as stub:
        for i, prompt in enumerate(map(encode, prompts(num_prompts))):
            fields = {"seed": i} if i % 2 else {"temperature": 0.0}
            plain = await generate(stub, prompt, num_tokens, k=0, **fields)
            for k in (K, None):
                answer = await generate(stub, prompt, num_tokens, k=k, **fields)
                assert answer.ids == plain.ids, f"prompt {i}, K = {k}"
                assert answer.choices[0].text == plain.choices[0].text
                num_accepted += answer.speculative.num_accepted_tokens
    assert num_accepted > num_prompts


@sizes(2, 24)
async def test_bf16_tokens_are_the_targets_within_a_margin_and_flips_are_counted(
    own_fleet, encode, record_property, num_prompts, num_tokens
):
    """Case 10: the speculated text is scored by the target in one plain pass; near-ties may flip, nothing else may."""
    pair = Pair(own_fleet, "--precision", "bf16")
    gaps = []
    async with clients(pair.target, pair.draft) as (target, draft):
        for prompt in map(encode, prompts(num_prompts)):
            run = await drafted(target, draft, prompt, num_tokens, GREEDY, k=K)
            gaps += await _gaps(target, prompt, run.ids)
    num_flips = sum(gap > 0 for gap in gaps)
    report = f"{num_flips} flips in {len(gaps)} tokens, the largest of {max(gaps):.3f} nats"
    record_property("bf16_flips", report)
    print(report)
    assert max(gaps) < MARGIN, report
    assert num_flips <= max(2, MAX_FLIPS * len(gaps)), report


@sizes(1, 16)
async def test_deterministic_mode_has_no_flips_at_all(own_fleet, encode, num_prompts, num_tokens):
    """Case 10: bf16, bit for bit, whatever K and whoever shares the batch."""
    pair = Pair(own_fleet, "--precision", "bf16", "--deterministic")
    async with clients(pair.target, pair.draft) as (target, draft):
        for prompt in map(encode, prompts(num_prompts)):
            plain = await alone(target, prompt, num_tokens, GREEDY, num_logprobs=0)
            run = await drafted(target, draft, prompt, num_tokens, GREEDY, k=K, num_logprobs=0)
            assert run.ids == plain.ids
            assert [each.logprob for each in run.logprobs] == [each.logprob for each in plain.logprobs]


async def _gaps(target, prompt, ids):
    """Of each emitted token: how much likelier the likeliest one was under teacher forcing."""
    line = TargetLine(target, [*prompt, *ids], GREEDY, num_prompt_logprobs=1)
    entries = (await line.expect(PromptLogprobs)).logprobs[len(prompt) - 1 :]
    await line.finish()
    assert len(entries) == len(ids)
    return list(np.array([entry.top_logprobs[0] - entry.logprob for entry in entries]))


def prompts(count):
    """The project's own, and those of FORERUN_PROMPTS up to `count`."""
    folder = os.environ.get("TEST_PROMPTS")
    more = _read(Path(folder)) if folder and count > len(PROMPTS) else ()
    return [*PROMPTS, *more][:count]


def _read(folder):
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines()[:NUM_FULL]:
            record = json.loads(line)
            yield (record.get("turns") or [record["prompt"]])[0][:1500]
