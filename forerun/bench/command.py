"""The `forerun bench` command."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from forerun.bench.client import Client
from forerun.bench.config import BenchConfig
from forerun.bench.course import Course
from forerun.bench.display import show
from forerun.bench.prompts import prompts_of
from forerun.bench.report import as_json, failures
from forerun.config import parse
from forerun.errors import ConfigError, ForerunError


def main(argv: Sequence[str]) -> int:
    """Prints what was measured, however it ends; returns 0 if all was answered, 130 for Ctrl-C, else 1."""
    config = parse(BenchConfig, argv, "forerun bench")
    prompts, errors = prompts_of(config.prompts), Console(stderr=True)
    _check_writable(config.json)
    with errors.status("") as status:
        client = Client(config.base_url, config.api_key, config.timeout_s)
        course = Course(config, prompts, client, tell=status.update)
        code = _run(client, course, errors)
    report = as_json(config, course.model, course.loads)
    if course.loads:
        show(report, Console())
    if config.json:
        Path(config.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return code or int(bool(failures(course.loads)))


def _run(client: Client, course: Course, errors: Console) -> int:
    async def run() -> None:
        async with client:
            await course.run()

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        errors.print("interrupted; an unfinished window counts the answers that had ended", highlight=False)
        return 130
    except ForerunError as error:
        errors.print(f"forerun bench: {error}", highlight=False, markup=False, soft_wrap=True)
        return 1
    return 0


def _check_writable(path: str) -> None:
    """Hours of measuring shall not end with a file that cannot be written."""
    try:
        if path:
            Path(path).touch()
    except OSError as error:
        raise ConfigError(f"--json {path} cannot be written: {error}") from error
    if path and Path(path).is_dir():
        raise ConfigError(f"--json {path} is a folder")
