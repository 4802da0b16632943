"""The table fits into a terminal, and says what limits or spoils its figures."""

import io

import pytest
from rich.console import Console

from forerun.bench.config import BenchConfig
from forerun.bench.course import OFF, ON, Load
from forerun.bench.display import show
from forerun.bench.report import as_json
from forerun.bench.window import Window
from tests.unit.bench.answers import answer, counts


def shown(*loads, width=80):
    out = io.StringIO()
    show(as_json(BenchConfig(api_key="sk-secret"), "tiny", loads), Console(file=out, width=width))
    return out.getvalue()


def window(took_s, speculative=None, **more):
    said = answer(0.0, 0.5, 20.0, num_tokens=3000, speculative=speculative)
    return Window([said], started_s=0.0, ended_s=took_s, is_whole=True, **more)


def load(num_at_once=16, **more):
    return Load(num_at_once, {ON: [window(2.0, counts(2, 8, 4))], OFF: [window(3.0, counts(0, 0, 0), **more)]})


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_figure_is_cut(width):
    text = shown(load(), width=width)
    assert " 16    on    1/0   1500    500    500    6.5    6.5  19500    50%   3.00   100%" in text
    assert " 16   off    1/0   1000    500    500    6.5    6.5  19500      -      -     0%" in text
    assert "16 at once: speculation on over off, tokens/s: 1.50 (1.50 to 1.50 in 1 pairs of windows)" in text


def test_a_table_of_eighty_columns_is_no_wider():
    assert max(map(len, shown(Load(1, load().windows)).splitlines()[1:5])) == 80


def test_failures_are_counted_and_quoted():
    text = shown(load(failures=["no room", "no room", "gone"]))
    assert "1/3" in text
    assert "16 at once, 2 failed: no room\n16 at once, 1 failed: gone\n" in text


def test_a_client_that_was_the_limit_says_so():
    assert "this client was busy 95% of the time" in shown(load(client_busy_share=0.95))
    assert "busy" not in shown(load(client_busy_share=0.5))


def test_a_load_that_was_not_met_has_no_row():
    text = shown(load(), Load(32, {ON: [Window()], OFF: []}))
    assert "32 " not in text.partition("─\n")[2]


def test_the_report_has_no_key():
    assert "sk-secret" not in str(as_json(BenchConfig(api_key="sk-secret"), "tiny", [load()]))
