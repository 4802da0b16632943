"""Settings: a frozen dataclass is the one description of a service's flags, environment and defaults."""

import argparse
import dataclasses
import os
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from forerun.errors import ConfigError

T = TypeVar("T")

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def option(default: Any, help: str, choices: Sequence[str] | None = None, alias: str = "") -> Any:
    """A dataclass field that becomes `--name-with-dashes` and `FORERUN_NAME_WITH_UNDERSCORES`.

    A field of strings (`tuple[str, ...]`) takes a list with commas, and its flag may be given several times.
    """
    return dataclasses.field(default=default, metadata={"help": help, "choices": choices, "alias": alias})


def parse(cls: type[T], argv: Sequence[str], prog: str, environ: Mapping[str, str] = os.environ) -> T:
    """Builds `cls` from flags, then FORERUN_* variables, then defaults.

    Raises ConfigError, naming the variable, for an environment value that does not fit its type.
    Exits as argparse does for a bad flag.
    """
    parser = argparse.ArgumentParser(prog=prog, description=(cls.__doc__ or "").split("\n")[0])
    add_options(parser, cls, environ)
    known = vars(parser.parse_args(argv))
    return cls(**known)


def add_options(parser: argparse.ArgumentParser, cls: type[Any], environ: Mapping[str, str] = os.environ) -> None:
    """Adds one flag per field of `cls`; its default is the environment's value where there is one."""
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        env = "FORERUN_" + field.name.upper()
        convert = _converter(hints[field.name])
        default = _from_env(environ, env, convert, field.default, field.metadata.get("choices"))
        help_text = f"{field.metadata.get('help', '')} [{env}, default {field.default!r}]".replace("%", "%%")
        flag = "--" + field.name.replace("_", "-")
        if convert is _boolean:
            parser.add_argument(flag, default=default, action=argparse.BooleanOptionalAction, help=help_text)
        elif convert is _strings:
            flags = filter(None, (flag, field.metadata.get("alias")))
            parser.add_argument(*flags, default=default, type=convert, action=_Repeated, help=help_text)
        else:
            choices = field.metadata.get("choices")
            parser.add_argument(flag, default=default, type=convert, choices=choices, help=help_text)


def _from_env(
    environ: Mapping[str, str], env: str, convert: Any, default: Any, choices: Sequence[str] | None = None
) -> Any:
    if env not in environ:
        return default
    try:
        value = convert(environ[env])
    except ValueError as error:
        raise ConfigError(f"{env}={environ[env]!r} is not valid: {error}") from error
    if choices is not None and value not in choices:
        raise ConfigError(f"{env}={environ[env]!r} is none of {', '.join(map(str, choices))}")
    return value


def _converter(hint: Any) -> Any:
    if isinstance(hint, types.UnionType):
        hint = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    if hint == tuple[str, ...]:
        return _strings
    return _boolean if hint is bool else hint


class _Repeated(argparse.Action):
    """Given, the flag takes the place of the default; given again, it adds."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, values if before is self.default else before + values)


def _strings(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(f"expected one of {', '.join(_TRUE + _FALSE)}")
