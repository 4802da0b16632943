"""What the device thread counts after a step."""

from types import SimpleNamespace

from prometheus_client import CollectorRegistry

from forerun.engine.sequence import Sequence
from forerun.serving.observer import StepObserver
from forerun.telemetry.metrics import ServiceMetrics

NAME = "forerun_num_preemptions_total"


def test_preemptions_are_counted_once_each():
    registry = CollectorRegistry()
    observer = StepObserver(ServiceMetrics(registry, "target"), tracer=None)
    scheduler = SimpleNamespace(running=[], num_queued=0, num_preemptions=0)
    pool = SimpleNamespace(num_free=1, num_blocks=1)
    observer.watch(SimpleNamespace(table=SimpleNamespace(pool=pool), scheduler=scheduler))
    seen = []
    for total in (0, 2, 2, 3):
        scheduler.num_preemptions = total
        observer.on_step(SimpleNamespace(step_s=0.01, num_rows=1, owners=[]))
        seen.append(registry.get_sample_value(NAME))
    assert seen == [0, 2, 2, 3]


def test_what_is_drafted_ahead_on_the_chance_is_no_load():
    registry = CollectorRegistry()
    due, ahead = Sequence([1], goal=1), Sequence([1], goal=1, expendable=True)
    scheduler = SimpleNamespace(running=[due, ahead, Sequence([1])], num_queued=0, num_preemptions=0)
    table = SimpleNamespace(pool=SimpleNamespace(num_free=1, num_blocks=1))
    observer = StepObserver(ServiceMetrics(registry, "draft"), tracer=None)
    observer.watch(SimpleNamespace(table=table, scheduler=scheduler))
    assert registry.get_sample_value("forerun_num_requests_running") == 1
