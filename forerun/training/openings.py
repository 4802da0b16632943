"""Where texts come from: the target's own questions, requests of ours, or a file of prompts.

An instruct model that is stopped where its user begins to speak goes on as the user (Magpie, arXiv 2406.08464).
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from forerun.models.tokenizer_files import ModelText
from forerun.training.chat_format import ChatFormat
from forerun.training.opening import Opening, Turn
from forerun.training.seeds import Passages, Request, Seeds

TEMPERATURES = (0.0, 0.7, 1.0)
"""Of texts, in equal shares: what a draft meets when it is asked to be greedy, careful or free."""

_OWN_QUESTIONS = 0.4  # of an instruct model's texts
_BARE_STARTS = 0.5  # of a base model's texts
_MAX_QUESTION = 128
_QUESTION_TEMPERATURE = 0.8
_FREQUENT_IDS = 2000  # the first merges of a vocabulary are its most frequent pieces


class Openings(Protocol):
    """Where texts begin."""

    ends: frozenset[int]
    """Ids at which a turn is over."""

    def open(self, index: int, rng: np.random.Generator) -> Opening:
        """The opening of text `index`; what is random in it comes from `rng`."""
        ...


class ChatOpenings:
    """For a model with a chat template: its own questions, requests, and now and then the beginning of a bare text."""

    def __init__(self, text: ModelText, seeds: Seeds, max_tokens: int) -> None:
        self._format = ChatFormat(text)
        self._text = text
        self._seeds = seeds
        self._max_tokens = max_tokens
        self.ends = self._format.ends

    def open(self, index: int, rng: np.random.Generator) -> Opening:
        temperature = TEMPERATURES[int(rng.integers(len(TEMPERATURES)))]
        answer = Turn(self._max_tokens, temperature)
        if rng.random() < _OWN_QUESTIONS:
            question = Turn(_MAX_QUESTION, _QUESTION_TEMPERATURE, scored=False, then=self._format.after_user)
            return Opening(self._format.before_user(), (question, answer))
        request = self._seeds.draw(rng)
        if request.is_completion:
            return Opening(_plain_ids(self._text, request.turns[0]), (answer,))
        return _conversation(self._format, request, answer)


class BaseOpenings:
    """For a model without a chat template: a frequent token or nothing at all, or a request as plain text."""

    def __init__(self, text: ModelText, seeds: Seeds, max_tokens: int) -> None:
        self._text = text
        self._seeds = seeds
        self._max_tokens = max_tokens
        self._starts = [i for i in range(text.vocab_size) if i not in text.special_ids and text.tokens[i]][
            :_FREQUENT_IDS
        ]
        self.ends = frozenset(text.eos_token_ids)

    def open(self, index: int, rng: np.random.Generator) -> Opening:
        answer = Turn(self._max_tokens, TEMPERATURES[int(rng.integers(len(TEMPERATURES)))])
        if rng.random() >= _BARE_STARTS:
            return Opening(_plain_ids(self._text, self._seeds.draw(rng).turns[0]), (answer,))
        start = self._starts[int(rng.integers(len(self._starts)))]
        return Opening((*_plain_ids(self._text, ""), start), (answer,))


class FileOpenings:
    """Prompts of the operator's own, one after another and over again, each time at another temperature."""

    def __init__(self, text: ModelText, prompts: Sequence[tuple[str, ...]], max_tokens: int) -> None:
        self._text = text
        self._prompts = prompts
        self._max_tokens = max_tokens
        self._format = ChatFormat(text) if text.chat_template else None
        self.ends = self._format.ends if self._format else frozenset(text.eos_token_ids)

    def open(self, index: int, rng: np.random.Generator) -> Opening:
        lap, place = divmod(index, len(self._prompts))
        temperature = TEMPERATURES[(place + lap) % len(TEMPERATURES)]
        if lap >= len(TEMPERATURES) and temperature == 0.0:
            temperature = TEMPERATURES[-1]  # greedy texts of one prompt are all the same
        answer, turns = Turn(self._max_tokens, temperature), self._prompts[place]
        if self._format is None:
            return Opening(_plain_ids(self._text, turns[0]), (answer,))
        return _conversation(self._format, Request(turns), answer)


class MixedOpenings:
    """`share` of the texts begin as the one says, the rest as the other."""

    def __init__(self, one: Openings, other: Openings, share: float) -> None:
        self._one, self._other, self._share = one, other, share
        self.ends = one.ends

    def open(self, index: int, rng: np.random.Generator) -> Opening:
        return (self._one if rng.random() < self._share else self._other).open(index, rng)


def make_openings(
    text: ModelText, passages: Passages, max_tokens: int, prompts: Sequence[tuple[str, ...]] = (), share: float = 1.0
) -> Openings:
    """Those that fit the model: `share` of them prompts of a file where there are any, the rest what needs none."""
    own: Openings = (ChatOpenings if text.chat_template else BaseOpenings)(text, Seeds(passages), max_tokens)
    if not prompts:
        return own
    of_file = FileOpenings(text, prompts, max_tokens)
    return MixedOpenings(of_file, own, share) if share < 1 else of_file


def _conversation(form: ChatFormat, request: Request, answer: Turn) -> Opening:
    """An answer to each of the user's turns."""
    later = [form.after_answer(turn) for turn in request.turns[1:]]
    answers = [Turn(answer.max_tokens, answer.temperature, then=ids) for ids in (*later, ())]
    return Opening(form.request(request.turns[0], request.system), tuple(answers))


def _plain_ids(text: ModelText, start: str) -> tuple[int, ...]:
    return tuple(text.tokenizer.encode(start, add_special_tokens=True).ids)
