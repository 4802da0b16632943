"""A child does not outlive its parent, nor do those that it started."""

import signal
import subprocess
import sys
import time
from pathlib import Path

WAIT_S = 20
TITLE = "forerun-test-sleeper"
MIDDLE = f"""
import subprocess, sys
from forerun import tether
tether.end_with_descendants()
sleep = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)", "{TITLE}"]
subprocess.run([sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *sleep])
"""
PARENT = f"""
import signal, subprocess
from forerun.tether import tethered
subprocess.run(tethered(signal.SIGTERM, "-c", {MIDDLE!r}))
"""


def sleepers():
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if TITLE.encode() in arguments:
            found.append(path.parent.name)
    return found


def test_a_parent_that_is_killed_takes_its_child_and_the_childs_own_with_it():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    assert parent.stdout.readline() == b"\n"
    assert len(sleepers()) == 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + WAIT_S
    while sleepers():
        assert time.monotonic() < deadline
        time.sleep(0.02)
