"""The flags of `forerun distill`, and what can be seen from them alone to be wrong."""

from dataclasses import dataclass
from pathlib import Path

from forerun.config import option
from forerun.errors import ConfigError
from forerun.models.bundled import NAME


@dataclass(frozen=True)
class DistillConfig:
    """Distil a draft from a target, with text that the target writes itself."""

    target: str = option(NAME, "model to draft for: its name, a model folder or a hub id")
    layers: str = option("4", "how many of the target's layers the draft starts as, or which: 0,1,28,29")
    vocab: int = option(16384, "token ids that the draft knows, the most frequent; 0 is all")
    minutes: float = option(60.0, "time for writing text and training on it, over all starts together")
    out: str = option("", "folder for the draft; the same one again goes on where it stopped")
    tokens: int = option(4_000_000, "most tokens that the target writes")
    start: str = option(
        "", "folder of an earlier draft to begin as, with layers put between its own where it has fewer"
    )
    data_share: float = option(0.5, "most of the minutes that writing may take")
    data: str = option("", "folder of the text, where several drafts learn from one; empty for OUT/data")
    prompts: str = option("", "prompts of your own: a file of lines, or .jsonl with `prompt` or `turns`")
    prompts_share: float = option(1.0, "share of the texts that answer them; the rest are begun as without them")
    top_k: int = option(48, "tokens of the target's law that are kept at every position")
    max_tokens: int = option(384, "longest answer that is written")
    sequences: int = option(64, "sequences that are written at once")
    batch_tokens: int = option(8192, "tokens a training step")
    learning_rate: float = option(1e-3, "its peak")
    checkpoint_minutes: float = option(3.0, "what a crash may cost")
    seed: int = option(0, "of prompts, draws and the order of the text")
    precision: str = option(
        "auto",
        "target's weights: bf16, int8, int4 or fp32; auto is as it would be served here",
        ("auto", "bf16", "int8", "int4", "fp32"),
    )
    compile: str = option("auto", "compile the target for this CPU; auto does where it can", ("auto", "on", "off"))
    device: str = option("cpu", "cpu or cuda")
    threads: int = option(0, "torch threads; 0 for all cores")

    @property
    def out_folder(self) -> Path:
        return Path(self.out).expanduser()

    @property
    def data_folder(self) -> Path:
        return Path(self.data).expanduser() if self.data else self.out_folder / "data"

    @property
    def start_folder(self) -> Path | None:
        return Path(self.start).expanduser() if self.start else None

    @property
    def prompts_path(self) -> Path | None:
        return Path(self.prompts).expanduser() if self.prompts else None


_AT_LEAST_ONE = ("tokens", "top_k", "max_tokens", "sequences", "batch_tokens")
_POSITIVE = ("minutes", "learning_rate", "checkpoint_minutes")


def check(config: DistillConfig) -> None:
    """Raises ConfigError, naming the flag, for a value that cannot work."""
    if not config.out:
        raise ConfigError("--out is missing: name the folder that the draft is written to")
    for name in _AT_LEAST_ONE:
        _demand(getattr(config, name) >= 1, name, "is at least 1", config)
    for name in _POSITIVE:
        _demand(getattr(config, name) > 0, name, "is over 0", config)
    _demand(config.vocab >= 0, "vocab", "is a number of ids, or 0 for all of them", config)
    _demand(config.seed >= 0, "seed", "is at least 0", config)
    _demand(0 < config.prompts_share <= 1, "prompts_share", "lies over 0 and is 1 at most", config)
    _demand(0 < config.data_share < 1, "data_share", "lies between 0 and 1", config)


def _demand(holds: bool, name: str, what: str, config: DistillConfig) -> None:
    if not holds:
        raise ConfigError(f"--{name.replace('_', '-')} {what}, got {getattr(config, name)}")
