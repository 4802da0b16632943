"""The `forerun distill` command: has the target write, trains the draft, leaves it in a folder."""

from collections.abc import Sequence

import torch
from rich.console import Console

from forerun.config import parse
from forerun.engine import torch_setup
from forerun.engine.cores import num_cores
from forerun.errors import ConfigError
from forerun.training import facts, training_phase
from forerun.training.config import DistillConfig, check
from forerun.training.corpus import Corpus
from forerun.training.display import Display
from forerun.training.interruption import Interruption
from forerun.training.layers import choose_layers
from forerun.training.ledger import Ledger
from forerun.training.memory import keep_freed_memory
from forerun.training.target import Target, read_target
from forerun.training.training_phase import TrainingPhase
from forerun.training.writing_phase import write_text

INTERRUPTED = 130


def main(argv: Sequence[str]) -> int:
    """Distils until the draft is there or a stop is asked for; returns the exit status."""
    config = parse(DistillConfig, argv, "forerun distill")
    check(config)
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("--device cuda needs a CUDA GPU and a torch that was built for it; none is seen here")
    num_threads = config.threads or num_cores()
    torch_setup.prepare(num_threads)
    keep_freed_memory()
    console = Console()
    with Display(console) as display, Interruption() as interruption:
        is_over = distill(config, num_threads, display, interruption)
    again = "" if is_over else "; the same command goes on"
    console.print(f"{config.out_folder}{again}", markup=False, highlight=False, soft_wrap=True)
    return 0 if is_over else INTERRUPTED


def distill(config: DistillConfig, num_threads: int, display: Display, interruption: Interruption) -> bool:
    """Whether all of it is done; otherwise a stop was asked for, and all that was done is kept.

    Raises ConfigError for a target, flags or folders that do not fit each other.
    """
    target = read_target(config.target)
    layers = choose_layers(config.layers, target.num_layers)
    corpus = _open(config, target, layers)
    ledger = Ledger(config.out_folder / "ledger.json")
    if not training_phase.has_begun(config):
        write_text(config, target, num_threads, corpus, ledger, display, interruption)
    if not interruption.asked:
        TrainingPhase(config, target, layers, corpus, ledger).run(display, interruption)
    return not interruption.asked


def _open(config: DistillConfig, target: Target, layers: tuple[int, ...]) -> Corpus:
    """The corpus, in folders that were begun with the same flags."""
    same = {"target": target.name, "weights": target.weights}
    start = str(config.start_folder.resolve()) if config.start_folder else ""
    draft = {**same, "layers": list(layers), "vocab": config.vocab, "start": start}
    facts.agree(config.out_folder / "draft.json", draft)
    prompts = config.prompts_path.name if config.prompts_path else ""
    return Corpus(config.data_folder, {**same, "top_k": config.top_k, "prompts": prompts}, target.text.vocab_size)
