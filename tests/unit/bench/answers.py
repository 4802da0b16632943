"""Answers as streams would bring them."""

from forerun.bench.answer import Answer


def piece(text, finish_reason=None):
    """An event with some text."""
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}], "usage": None}


def counts(num_drafts, num_draft_tokens, num_accepted_tokens):
    """The response extension."""
    return {
        "num_drafts": num_drafts,
        "num_draft_tokens": num_draft_tokens,
        "num_accepted_tokens": num_accepted_tokens,
    }


def answer(asked_s, *arrivals_s, num_tokens=None, speculative=None):
    """A piece at each arrival and the end with the last; as many tokens as pieces, unless said."""
    made = Answer(asked_s)
    for at_s in arrivals_s:
        made.take(piece("x"), at_s)
    usage = {"completion_tokens": len(arrivals_s) if num_tokens is None else num_tokens}
    extension = {} if speculative is None else {"speculative": speculative}
    made.take({"choices": [], "usage": usage, **extension}, arrivals_s[-1] if arrivals_s else asked_s)
    return made
