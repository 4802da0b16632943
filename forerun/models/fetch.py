"""`forerun fetch`: a model on a volume, brought once, verified at every start. What a pod runs before its service."""

import glob
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from forerun import config as settings
from forerun.config import option
from forerun.errors import ConfigError
from forerun.models import resolve
from forerun.models.cache_folder import locked
from forerun.models.checksums import TEXT, WEIGHTS, difference, digests, model_files, read_list, write_list


@dataclass(frozen=True)
class FetchConfig:
    """Brings a model into a folder and verifies every file of it."""

    model: str = option("SmolLM2-135M-Instruct", "a bundled model, a model folder, or a hub id")
    revision: str = option("", "commit of a hub id; empty is the newest")
    into: str = option("", "folder that is the model afterwards")
    checksums: str = option("", "sha256sum lines that the folder must equal; empty prints the lines of what came")
    text_only: bool = option(False, "without weights: what a gateway reads")

    def __post_init__(self) -> None:
        """Raises ConfigError without a folder."""
        if not self.into:
            raise ConfigError("--into is empty; name the folder that is to hold the model")

    @property
    def patterns(self) -> tuple[str, ...]:
        """The files that are wanted."""
        return TEXT if self.text_only else (*TEXT, *WEIGHTS)


def main(argv: Sequence[str]) -> int:
    """Returns 0 once the folder is complete and right. Raises ConfigError where that cannot be had."""
    config = settings.parse(FetchConfig, argv, "forerun fetch")
    wanted = read_list(Path(config.checksums), config.patterns) if config.checksums else None
    known = fetch(config, wanted)
    if wanted is None:
        sys.stdout.write(write_list(known))
    else:
        sys.stderr.write(f"{config.into}: {len(known)} files, as {config.checksums} says\n")
    return 0


def fetch(config: FetchConfig, wanted: dict[str, str] | None) -> dict[str, str]:
    """The digests of the folder's files, which equal `wanted`.

    A folder that is right stays; any other is replaced as a whole, so that nobody ever sees half a model. Processes
    that share the volume take turns. Raises ConfigError, naming the files, where what came is not what is wanted.
    """
    into = Path(config.into)
    into.parent.mkdir(parents=True, exist_ok=True)
    with locked(into.parent / f".{into.name}.lock"):
        if wanted is not None and into.is_dir():
            there = digests(into, config.patterns)
            if there == wanted:
                return there
        return _replace(into, config, wanted)


def _replace(into: Path, config: FetchConfig, wanted: dict[str, str] | None) -> dict[str, str]:
    prefix = f".{into.name}.unfinished-"
    for abandoned in into.parent.glob(glob.escape(prefix) + "*"):  # its maker was killed, for the lock is ours
        shutil.rmtree(abandoned)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix=prefix) as unfinished:
        came = Path(unfinished) / "came"
        _bring(config, came)
        known = digests(came, config.patterns)
        wrong = difference(known, known if wanted is None else wanted)
        if wrong:
            raise ConfigError(f"{config.model} is not what {config.checksums} lists: {wrong}")
        if into.exists():
            into.rename(Path(unfinished) / "replaced")
        came.rename(into)
    return known


def _bring(config: FetchConfig, came: Path) -> None:
    came.mkdir()
    if resolve.is_hub_id(config.model):
        resolve.download(config.model, config.revision, config.patterns, came)
        return
    if config.revision:
        raise ConfigError(f"--revision is for hub ids; {config.model!r} is none")
    for path in model_files(resolve.resolve(config.model), config.patterns):
        shutil.copyfile(path, came / path.name)
