"""The arithmetic of the comparison with peers."""

import math

import pytest

from benchmarks.peers import heats
from benchmarks.peers.goals import goals
from benchmarks.peers.job import Job, decoding_rate
from benchmarks.peers.prompts import OWN, Prompt, category, read
from benchmarks.peers.summary import Summary, table
from benchmarks.peers.system import Failed
from benchmarks.peers.turns import Condition, Course, Record

GREEDY = Condition(1, 0.0)


def test_a_rate_counts_what_came_while_all_prompts_decoded():
    first = [(1.0, 1), (2.0, 2), (3.0, 1)]
    second = [(1.5, 1), (2.5, 1), (3.5, 2)]
    assert decoding_rate([first], 4) == pytest.approx(3 / 2)
    assert decoding_rate([first, second], 4) == pytest.approx((2 + 1 + 1) / 1.5)


def test_a_rate_is_refused_for_missing_tokens_and_for_prompts_one_after_the_other():
    with pytest.raises(ValueError, match="3 tokens came where 4"):
        decoding_rate([[(1.0, 1), (2.0, 2)]], 4)
    with pytest.raises(ValueError, match="one after the other"):
        decoding_rate([[(1.0, 1), (2.0, 1)], [(3.0, 1), (4.0, 1)]], 2)


def test_a_job_survives_the_wire():
    job = Job(((1, 2), (3,)), 4, 0.5)
    assert Job.from_json(job.as_json()) == job


def test_ratios_are_of_the_same_job():
    rates = {"forerun": (30.0, 80.0), "vllm-draft": (10.0, 20.0)}
    records = [
        Record(system, GREEDY, turn, "code", rate)
        for system, both in rates.items()
        for turn, rate in zip("ab", both, strict=True)
    ]
    records.append(Record("forerun", GREEDY, "c", "chat", 1e6))
    ratio = Summary(records).ratio("forerun", "vllm-draft", GREEDY)
    assert ratio.mean == pytest.approx(math.sqrt(3 * 4), abs=1e-3)
    assert ratio.low < 3.4641 < ratio.high
    assert ratio.num_jobs == 2
    assert Summary(records).ratio("forerun", "vllm-draft", GREEDY, "chat") is None
    assert "| vllm-draft | 15.0 | – | 15.0 | 3.46" in table(Summary(records), GREEDY)


def test_goals_take_a_peer_at_its_best_and_name_what_is_missed():
    rates = {"forerun": 100.0, "forerun-alone": 90.0, "openvino-int8": 60.0, "openvino-int4": 80.0}
    lines = [str(line) for line in goals(Summary([Record(name, GREEDY, "a", "code", r) for name, r in rates.items()]))]
    assert "batch 1, greedy: forerun over openvino at its best: 1.25, goal 1.30, MISSED" in lines
    assert "batch 1, greedy: forerun over forerun-alone, the worst category: 1.11, goal 0.98" in lines
    assert "batch 1, greedy: forerun over vllm at its best: not measured, goal 2.50" in lines


class Steady:
    """A system that answers a token a second, or fails."""

    def __init__(self, name, max_batch=99, fails=False):
        self.name, self.max_batch, self._fails, self.jobs = name, max_batch, fails, []

    def ask(self, job):
        self.jobs.append(job)
        if self._fails:
            raise Failed("out of luck")
        return [[(float(i), 1) for i in range(job.num_tokens)] for _ in job.prompts]


def course(ends=math.inf):
    prompts = [Prompt("code", (1, 2)), Prompt("chat", (3,))]
    return Course([GREEDY, Condition(2, 0.0)], prompts, num_tokens=4, rounds=1, ends=ends)


def test_what_fails_in_a_condition_is_asked_once_and_the_others_go_on():
    able, alone, failing = Steady("a"), Steady("b", max_batch=1), Steady("c", fails=True)
    run = course()
    run.run([able, alone, failing], heat=0)
    assert (len(able.jobs), len(alone.jobs), len(failing.jobs)) == (5, 2, 2)
    assert run.failures == {"c, batch 1, greedy": "out of luck", "c, batch 2, greedy": "out of luck"}
    assert [record.tokens_per_s for record in run.records if record.system == "a"] == [1, 1, 2, 2, 2]


def test_a_course_ends_on_time_and_says_so():
    run = course(ends=-math.inf)
    run.run([Steady("a")], heat=0)
    assert run.records == []
    assert "out of time after 0 jobs" in run.failures["heat 0, batch 1, greedy"]


def test_own_prompts_come_in_turn_from_each_category(bundled_model):
    prompts = read(OWN, 12, bundled_model)
    assert [prompt.category for prompt in prompts[:6]] == [prompt.category for prompt in prompts[6:]]
    assert len({prompt.category for prompt in prompts}) == 6


def test_only_line_feeds_end_a_prompts_line(tmp_path, bundled_model):
    (tmp_path / "own.jsonl").write_text('{"prompt": "a\u2028b"}\n\n{"prompt": "c"}\n', encoding="utf-8")
    assert len(read(tmp_path, 9, bundled_model)) == 2


def test_code_goes_by_one_name():
    assert category({"task_id": "HumanEval/3"}, "file") == category({"category": "coding"}, "file") == "code"
    assert category({"prompt": "x"}, "file") == "file"


def test_a_warm_up_is_of_each_size_and_meets_no_measured_prefix():
    asked = [Prompt("chat", tuple(range(n, n + 9))) for n in range(4)]
    course = Course([GREEDY, Condition(1, 1.0), Condition(4, 0.0)], asked, 64, 1, math.inf)
    heats.warm_up(course, [system := Steady("a")])
    assert [len(job.prompts) for job in system.jobs] == [1] * 6 + [4] * 2
    assert {ids for job in system.jobs for ids in job.prompts} == {prompt.ids[1:] for prompt in asked}
