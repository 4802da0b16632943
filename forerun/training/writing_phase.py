"""The first phase: the target writes until there is text enough, or time to train on it."""

from contextlib import closing

from forerun.engine.build import EngineSettings
from forerun.prompt_file import read_prompts
from forerun.training.config import DistillConfig
from forerun.training.corpus import Corpus
from forerun.training.display import Display
from forerun.training.document import Document
from forerun.training.generation import Generation, Plan
from forerun.training.interruption import Interruption
from forerun.training.ledger import Ledger
from forerun.training.openings import make_openings
from forerun.training.seeds import Passages
from forerun.training.stopwatch import Stopwatch
from forerun.training.target import Target

SHARD_TOKENS = 65_536
"""Texts go to disk when they hold so many tokens: a minute or two of writing is what a crash may cost."""

_MEMORY_FRACTION = 0.4


def write_text(
    config: DistillConfig,
    target: Target,
    num_threads: int,
    corpus: Corpus,
    ledger: Ledger,
    display: Display,
    interruption: Interruption,
) -> None:
    """Adds to the corpus until it holds config.tokens, its share of the time is spent, or a stop is asked for."""
    limit_s = 60 * config.minutes * config.data_share
    if corpus.num_scored >= config.tokens or ledger.writing_s >= limit_s:
        return
    display.phase("loading the target")
    generation = _generation(config, target, num_threads, corpus)
    display.phase("the target writes")
    shelf = _Shelf(corpus, ledger)
    with closing(shelf):
        with closing(generation.texts()) as texts:
            for document in texts:
                shelf.take(document)
                done = max(shelf.num_tokens / config.tokens, ledger.writing_s / limit_s)
                display.show(done, f"{shelf.num_tokens} tokens, {generation.num_tokens / shelf.elapsed_s:.0f} tokens/s")
                if done >= 1 or interruption.asked:
                    break
        for document in generation.rest():
            shelf.take(document)
    display.note(
        f"{corpus.num_scored} tokens in {len(corpus)} texts; {generation.num_tokens / shelf.elapsed_s:.0f} tokens/s on "
        f"{generation.backend}: {_percent(generation.step_s, shelf)} in the model, "
        f"{_percent(generation.reading_s, shelf)} in drawing and keeping"
    )


class _Shelf:
    """Finished texts on their way to disk. num_tokens: of the corpus and of these; elapsed_s: of this start, over 0."""

    def __init__(self, corpus: Corpus, ledger: Ledger) -> None:
        self._corpus, self._ledger = corpus, ledger
        self._waiting: list[Document] = []
        self._num_waiting, self._num_kept = 0, corpus.num_scored
        self._watch = Stopwatch()
        self.elapsed_s = 1e-9

    @property
    def num_tokens(self) -> int:
        return self._num_kept + self._num_waiting

    def take(self, document: Document | None) -> None:
        """Adds a text, where there is one, and brings the ledger up to date."""
        lap = self._watch.lap()
        self.elapsed_s += lap
        self._ledger.writing_s += lap
        if document is None:
            return
        self._waiting.append(document)
        self._num_waiting += document.num_scored
        if self._num_waiting >= SHARD_TOKENS:
            self._put()

    def close(self) -> None:
        """Everything is on disk afterwards."""
        self._put()

    def _put(self) -> None:
        if self._waiting:
            self._corpus.add(self._waiting)
        self._waiting, self._num_kept, self._num_waiting = [], self._num_kept + self._num_waiting, 0
        self._ledger.save()


def _generation(config: DistillConfig, target: Target, num_threads: int, corpus: Corpus) -> Generation:
    passages = Passages()
    prompts = read_prompts(config.prompts_path) if config.prompts_path else ()
    plan = Plan(
        openings=make_openings(target.text, passages, config.max_tokens, prompts, config.prompts_share),
        done=frozenset(corpus.indices()),
        vocab_size=target.text.vocab_size,
        num_sequences=config.sequences,
        top_k=config.top_k,
        seed=config.seed,
        tell=lambda ids: passages.offer(target.text.tokenizer.decode(ids)),
    )
    settings = EngineSettings(
        folder=target.folder,
        model_id=target.name,
        precision=config.precision,
        compile=config.compile,
        num_threads=num_threads,
        device=config.device,
        memory_fraction=_MEMORY_FRACTION,
        max_sequences=config.sequences,
    )
    return Generation(plan, settings)


def _percent(part_s: float, shelf: _Shelf) -> str:
    return f"{100 * part_s / shelf.elapsed_s:.0f} %"
