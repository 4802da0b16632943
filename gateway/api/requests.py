"""A request's JSON body → a Job, or an error that names the parameter at fault."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from forerun.errors import InvalidRequest
from gateway.api import neutral
from gateway.api.fields import Fields
from gateway.api.job import Job, Prompt
from gateway.api.limits import Limits, ModelInfo
from gateway.api.prompts import Prompts
from gateway.api.sampling import read_sampling
from gateway.text import Text

_COMPLETION_MAX_TOKENS = 16  # OpenAI's default


class Requests:
    """Reads requests for one model. `tenant` is whatever tells clients apart (an API key); it salts the cache."""

    def __init__(self, text: Text, model: ModelInfo, limits: Limits) -> None:
        self._text = text
        self._model = model
        self._limits = limits
        self._prompts = Prompts(text, model, limits)

    def chat(self, body: Mapping[str, Any], tenant: str = "") -> Job:
        """Reads a body of /v1/chat/completions."""
        fields = Fields(body)
        job, max_tokens = self._shared(fields, "chat", tenant)
        neutral.refuse_changes(fields, neutral.CHAT, job.n)
        logprobs = fields.boolean("logprobs")
        top_logprobs = fields.integer("top_logprobs", 0, self._limits.top_logprobs)
        if top_logprobs and not logprobs:
            raise fields.invalid("top_logprobs", "needs logprobs: true")
        if max_tokens == 0:
            raise fields.invalid("max_tokens", "must be at least 1")
        ids = self._prompts.chat_ids(fields, fields.raw("messages"))
        fields.finish()
        prompt = self._prompts.fit(ids, max_tokens, None, "messages")
        num_logprobs = (top_logprobs or 0) if logprobs else None
        return self._checked(replace(job, prompts=(prompt,), num_logprobs=num_logprobs), max_tokens)

    def completion(self, body: Mapping[str, Any], tenant: str = "") -> Job:
        """Reads a body of /v1/completions."""
        fields = Fields(body)
        job, max_tokens = self._shared(fields, "completion", tenant)
        neutral.refuse_changes(fields, neutral.COMPLETION, job.n)
        echo = fields.boolean("echo")
        num_logprobs = fields.integer("logprobs", 0, self._limits.top_logprobs)
        add_special_tokens = fields.boolean("add_special_tokens", True)
        given = self._prompts.completion_ids(fields.raw("prompt"), add_special_tokens)
        fields.finish()
        fitting = [self._prompts.fit(ids, max_tokens, _COMPLETION_MAX_TOKENS, "prompt") for ids, _ in given]
        job = replace(job, prompts=tuple(fitting), echo=echo, num_logprobs=num_logprobs)
        return self._echoing(self._checked(job, max_tokens), [text for _, text in given])

    def _echoing(self, job: Job, texts: Sequence[str | None]) -> Job:
        """The prompts' texts, as given or as their ids spell them, and with logprobs the place of each token there."""
        if not job.echo:
            return job
        return replace(job, prompts=tuple(map(partial(self._echoed, job), job.prompts, texts)))

    def _echoed(self, job: Job, prompt: Prompt, text: str | None) -> Prompt:
        text = self._text.decode(prompt.ids) if text is None else text
        offsets = () if job.num_logprobs is None else self._text.offsets(prompt.ids, text)
        return replace(prompt, text=text, offsets=offsets)

    def _shared(self, fields: Fields, endpoint: Any, tenant: str) -> tuple[Job, int | None]:
        """Takes what both endpoints have; returns a Job without prompts, and max_tokens where given."""
        model = self._model.check_name(fields.raw("model"))
        n = fields.integer("n", 1, self._limits.choices) or 1
        stream, include_usage = _streaming(fields)
        max_tokens = _max_tokens(fields, self._model)
        job = Job(
            endpoint=endpoint,
            model=model,
            prompts=(),
            sampling=read_sampling(fields, self._model, self._limits),
            n=n,
            stream=stream,
            include_usage=include_usage,
            cache_salt=_salt(tenant, fields.string("cache_salt", 256)),
            return_token_ids=fields.boolean("return_token_ids"),
        )
        return job, max_tokens

    def _checked(self, job: Job, max_tokens: int | None) -> Job:
        if job.num_choices > self._limits.choices:
            told = f"{len(job.prompts)} prompts times n = {job.n} are more than {self._limits.choices} choices"
            raise InvalidRequest(f"{told}; send several requests", "n")
        if max_tokens is None:
            job = self._lowered(job)
        self._check_size(job)
        shortest = min(prompt.max_tokens for prompt in job.prompts)
        if job.sampling.ending.min_tokens > shortest:
            told = f"min_tokens is {job.sampling.ending.min_tokens}, more than max_tokens, {shortest}"
            raise InvalidRequest(told, "min_tokens")
        return job

    def _lowered(self, job: Job) -> Job:
        """A max_tokens that nobody asked for leaves room for all choices within the limits."""
        most = self._limits.output_tokens
        if job.num_logprobs is not None:
            most = min(most, self._limits.logprobs // (1 + job.num_logprobs) - _num_echoed(job))
        share = max(most // job.num_choices, 1)
        prompts = tuple(replace(prompt, max_tokens=min(prompt.max_tokens, share)) for prompt in job.prompts)
        return replace(job, prompts=prompts)

    def _check_size(self, job: Job) -> None:
        """What the choices may grow to, and what would be told of each token, stay within bounds."""
        num_tokens, limit = job.n * sum(prompt.max_tokens for prompt in job.prompts), self._limits.output_tokens
        if num_tokens > limit:
            told = f"{job.num_choices} choices may have {num_tokens} tokens together, more than {limit}"
            raise InvalidRequest(f"{told}; ask for fewer choices or a smaller max_tokens", "max_tokens")
        if job.num_logprobs is None:
            return
        num_laws = (num_tokens + _num_echoed(job)) * (1 + job.num_logprobs)
        if num_laws > self._limits.logprobs:
            told = f"the answer may hold {num_laws} logprobs, more than {self._limits.logprobs}"
            shorter = "a smaller max_tokens, or no echo" if job.echo else "a smaller max_tokens"
            raise InvalidRequest(f"{told}; ask for fewer of them, for {shorter}", "logprobs")


def _num_echoed(job: Job) -> int:
    return job.n * sum(len(prompt.ids) for prompt in job.prompts) if job.echo else 0


def _streaming(fields: Fields) -> tuple[bool, bool]:
    stream = fields.boolean("stream")
    options = fields.inner("stream_options")
    if options is None:
        return stream, False
    if not stream:
        raise fields.invalid("stream_options", "needs stream: true")
    include_usage = options.boolean("include_usage")
    options.raw("include_obfuscation")
    options.finish()
    return stream, include_usage


def _max_tokens(fields: Fields, model: ModelInfo) -> int | None:
    """Returns max_completion_tokens or its older name max_tokens; the bound is checked with the prompt's length."""
    new = fields.integer("max_completion_tokens", 0, 1 << 31)
    old = fields.integer("max_tokens", 0, 1 << 31)
    if new is not None and old is not None and new != old:
        raise fields.invalid("max_tokens", "and max_completion_tokens differ; give one of them")
    return old if new is None else new


def _salt(tenant: str, cache_salt: str) -> str:
    """Returns the namespace of the prefix cache: nobody learns from cached_tokens what other keys asked."""
    if not tenant and not cache_salt:
        return ""
    return hashlib.sha256(f"{tenant}\0{cache_salt}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
