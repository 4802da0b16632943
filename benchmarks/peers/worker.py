"""A peer's process, stopped whenever it is not its turn: engines spin while they wait, and the cores are shared."""

import json
import os
import select
import signal
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.peers.environments import interpreter, last_line
from benchmarks.peers.job import Arrivals, Job
from benchmarks.peers.models import Models
from benchmarks.peers.system import Failed, PeerMode
from forerun.models.cache_folder import cache_folder

ROOT = Path(__file__).parent.parent.parent
TCMALLOC = "*/libtcmalloc_minimal.so.4"  # what vLLM's manual asks for beside Intel's OpenMP; Debian has it
START_S = 900.0  # vLLM compiles and OpenVINO converts at their first start
ANSWER_S = 300.0


class Worker:
    """One peer in one mode, loaded."""

    def __init__(self, mode: PeerMode, models: Models) -> None:
        """Returns once the engine is loaded. Raises Failed or NotInstalled."""
        self.name, self.max_batch = mode.name, mode.max_batch
        self._log = cache_folder("peers") / f"run-{mode.name}.log"
        python = interpreter(mode.peer)
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [str(python), "-m", f"benchmarks.peers.workers.{mode.peer}", *_flags(mode, models)],
                cwd=ROOT,
                env={**os.environ, **_environ(mode.peer, python)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        try:
            self._answer(START_S)
        except Failed:
            self.close()
            raise
        self._signal(signal.SIGSTOP)

    def ask(self, job: Job) -> Arrivals:
        """See `System.ask`."""
        self._signal(signal.SIGCONT)
        try:
            assert self._process.stdin
            print(json.dumps(job.as_json()), file=self._process.stdin, flush=True)
            answer = self._answer(ANSWER_S)
        except BrokenPipeError as error:
            raise Failed(last_line(self._log)) from error
        finally:
            self._signal(signal.SIGSTOP)
        if "error" in answer:
            raise Failed(answer["error"])
        arrivals: Arrivals = answer["arrivals"]
        return arrivals

    def close(self) -> None:
        """The process and its children are gone afterwards."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _answer(self, timeout_s: float) -> Any:
        assert self._process.stdout
        if not select.select([self._process.stdout], [], [], timeout_s)[0]:
            raise Failed(f"no answer within {timeout_s:.0f} s: {last_line(self._log)}")
        if not (line := self._process.stdout.readline()):
            raise Failed(last_line(self._log))
        return json.loads(line)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)


def _flags(mode: PeerMode, models: Models) -> list[str]:
    values = {
        "mode": mode.mode,
        "target": models.target,
        "draft": models.draft,
        "gguf": models.gguf,
        "folder": cache_folder("peer-models"),
        "threads": len(os.sched_getaffinity(0)),
    }
    return [text for name, value in values.items() for text in (f"--{name}", str(value))]


def _environ(peer: str, python: Path) -> dict[str, str]:
    environ = {"HF_HUB_OFFLINE": "1", "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    if peer == "vllm":
        cores = sorted(os.sched_getaffinity(0))
        environ["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, cores))
        environ["VLLM_CPU_KVCACHE_SPACE"] = "1"
        environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        environ["VLLM_NO_USAGE_STATS"] = "1"
        environ["VLLM_CACHE_ROOT"] = str(cache_folder("peers") / "vllm-compiled")
        libraries = (python.parent.parent / "lib" / "libiomp5.so", *Path("/usr/lib").glob(TCMALLOC))
        environ["LD_PRELOAD"] = ":".join(str(path) for path in libraries if path.exists())
    return environ
