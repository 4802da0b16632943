"""Stock locust against the pair: requests, failures and latencies under a steady load of chats.

python -m benchmarks.clients.loaded [--users 8] [--seconds 60]
"""

import argparse
import csv
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.peers.environments import interpreter, versions
from benchmarks.trio import running

COLUMNS = {
    "Request Count": "requests",
    "Failure Count": "failures",
    "50%": "p50_ms",
    "95%": "p95_ms",
    "99%": "p99_ms",
    "Requests/s": "per_s",
}


def attack(url: str, users: int, seconds: int) -> dict[str, Any]:
    """Locust's own table, by the name of the request."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(interpreter("locust")), "-m", "locust", "-f", str(Path(__file__).parent / "locustfile.py")]
        command += ["--headless", "--host", url, "--users", str(users), "--spawn-rate", "2"]
        command += ["--run-time", f"{seconds}s", "--stop-timeout", "30", "--csv", f"{folder}/run", "--only-summary"]
        subprocess.run(command, check=False)
        with open(f"{folder}/run_stats.csv", newline="") as file:
            rows = list(csv.DictReader(file))
    return {row["Name"]: {ours: float(row[theirs]) for theirs, ours in COLUMNS.items()} for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=60)
    arguments = parser.parse_args()
    with running() as trio:
        table = attack(trio.url, arguments.users, arguments.seconds)
    for name, row in table.items():
        print(f"{name}: {row}")
    report.save("locust", {"client": versions("locust"), "users": arguments.users, "table": table})
    if any(row["failures"] for row in table.values()) or not table["Aggregated"]["requests"]:
        sys.exit("requests failed")


if __name__ == "__main__":
    main()
