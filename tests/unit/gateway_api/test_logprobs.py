"""`text_offset` says where in a completion's text each of its tokens begins."""

from tokenizers import processors

from gateway.api.limits import Limits
from gateway.api.requests import Requests
from gateway.api.runner import Run
from gateway.api.shapes import CompletionShape
from gateway.text import Text
from tests.support.byte_text import byte_model, byte_text, byte_tokenizer
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.virtual_time import run

MODEL = byte_model()
EOS = MODEL.eos_token_ids[0]


def text_with_bos():
    tokenizer = byte_tokenizer()
    bos = "<|endoftext|>"
    bos_id = tokenizer.token_to_id(bos)
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, bos_id)])
    return Text(tokenizer)


async def completed(text, answer, **body):
    """A completion's text, and (token, where it begins in that text) of each token."""
    coordinator = FakeCoordinator(lambda request: [*text.encode(answer, add_special_tokens=False), EOS], run_len=2)
    job = Requests(text, MODEL, Limits()).completion({"model": "tiny", "logprobs": 0, "max_tokens": 50, **body})
    async with Run(coordinator, text, job, lambda index, num_tokens: None) as made:
        shape = CompletionShape(job, text, "id", 0, made.prompt_logprobs)
        choice = shape.body(await made.whole(), made.totals)["choices"][0]
    logprobs = choice["logprobs"]
    return choice["text"], list(zip(logprobs["tokens"], logprobs["text_offset"], strict=True))


def test_a_character_of_several_tokens_counts_once_and_eos_has_no_text():
    for prompt, echo in (("🤷a", True), ([*byte_text().encode("🤷a")], True), ("x", False)):
        said, tokens = run(completed(byte_text(), "b🤷c", prompt=prompt, echo=echo))
        assert said == ("🤷a" if echo else "") + "b🤷c"
        whole = [(token, at) for token, at in tokens if "\ufffd" not in token]
        assert [said[at:].startswith(token) for token, at in whole[:-1]] == [True] * len(whole[:-1])
        assert whole[-1] == ("<|im_end|>", len(said))
        assert {said[at] for token, at in tokens if "\ufffd" in token} == {"🤷"}


def test_a_bos_that_the_text_does_not_bring_shifts_nothing():
    for prompt in ("ab", "<|endoftext|>ab"):
        said, tokens = run(completed(text_with_bos(), "c", prompt=prompt, echo=True))
        assert said == prompt + "c"
        end = len(prompt)
        assert tokens[1:] == [("a", end - 2), ("b", end - 1), ("c", end), ("<|im_end|>", end + 1)]
        assert tokens[0] == ("<|endoftext|>", 0)
