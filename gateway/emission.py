"""Commits tokens to transcript and sink, up to the one that ends the text, wherever in a verdict it lies."""

from forerun.rpc.convert import logprobs_from_pb
from forerun.rpc.messages import PromptLogprobs, Verdict
from gateway.generation import ChoiceRequest, Sink
from gateway.transcript import Transcript


class Emission:
    """The transcript of one choice on its way out; nothing is committed once `ended`."""

    def __init__(self, request: ChoiceRequest, sink: Sink) -> None:
        self._sink = sink
        self.transcript = Transcript(request.prompt)
        self.max_len = len(request.prompt) + request.max_tokens
        self.ended = request.max_tokens == 0

    @property
    def num_left(self) -> int:
        """Tokens that max_tokens still allows."""
        return self.max_len - len(self.transcript)

    def commit(self, accepted: tuple[int, ...], verdict: Verdict) -> None:
        """Commits the accepted tokens and the target's own; what follows the last token of the text is dropped."""
        logprobs = logprobs_from_pb(verdict.logprobs) if verdict.logprobs else ()
        tokens, num_kept = (*accepted, verdict.token), 0
        for index, token in enumerate(tokens):
            num_kept += 1
            reason = self._sink.push(token, logprobs[index] if logprobs else None)
            if reason is not None or num_kept >= self.num_left:
                self.ended = True
                break
        self.transcript.commit(tokens[:num_kept])
        self._sink.flush()

    def prompt_logprobs(self, message: PromptLogprobs) -> None:
        """Hands on the laws of the prompt tokens."""
        self._sink.push_prompt_logprobs(logprobs_from_pb(message.logprobs))
