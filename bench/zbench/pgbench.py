"""Runs pgbench beside a workload and reads what it prints."""
from __future__ import annotations

import re
import subprocess
import tempfile
import time
from pathlib import Path

from .server import BenchError, Side

PROGRESS = re.compile(r"^progress: ([\d.]+) s, ([\d.]+) tps, lat ([\d.]+) ms")


class Pgbench:
    """One running pgbench; wait() fills tps, transactions and progress."""

    def __init__(self, side: Side, clients: int, seconds: float,
                 builtin: str | None = None, script: str | None = None,
                 scale: int | None = None, log: bool = False,
                 protocol: str = "prepared", transactions: int = 0):
        """For so many seconds, or so many transactions of all clients."""
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        args = ["-n", "-M", protocol, "-c", str(clients),
                "-j", str(min(clients, 2)), "-P", "1"]
        if transactions > 0:
            args += ["-t", str(max(1, transactions // clients))]
        else:
            args += ["-T", str(max(1, round(seconds)))]
        if builtin is not None:
            args += ["-b", builtin]
        else:
            assert script is not None
            (folder / "script.sql").write_text(script)
            args += ["-f", str(folder / "script.sql")]
            if scale is not None:
                args += ["-D", f"scale={scale}"]
        if log:
            args += ["-l", "--sampling-rate=0.2",
                     f"--log-prefix={folder / 'log'}"]
        self.tps = self.latency = 0.0
        self.transactions = 0
        self.progress: list[tuple[float, float]] = []	# (seconds, tps)
        self.began = time.monotonic()
        self._process = side.program(
            "pgbench", *args, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True)

    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> "Pgbench":
        out, err = self._process.communicate()
        self._read(out, err)
        if self._process.returncode != 0:
            raise BenchError("pgbench failed: " + (out + err)[-2000:])
        return self

    def wait_killed(self) -> "Pgbench":
        """The end of a pgbench whose server was killed."""
        self._read(*self._process.communicate())
        return self

    def _read(self, out: str, err: str) -> None:
        for line in err.splitlines():
            found = PROGRESS.match(line)
            if found:
                self.progress.append((float(found[1]), float(found[2])))
        found = re.search(r"actually processed: (\d+)", out)
        self.transactions = int(found[1]) if found else 0
        found = re.search(r"^tps = ([\d.]+)", out, re.M)
        self.tps = float(found[1]) if found else 0.0
        found = re.search(r"^latency average = ([\d.]+)", out, re.M)
        self.latency = float(found[1]) if found else 0.0

    def percentile(self, share: float) -> float:
        """Latency in ms that `share` of the logged transactions kept below."""
        values: list[int] = []
        for path in Path(self._folder.name).glob("log.*"):
            with open(path) as f:
                values += [int(line.split()[2]) for line in f]
        if not values:
            return 0.0
        values.sort()
        return values[min(len(values) - 1, int(len(values) * share))] / 1000.0


def load(side: Side, scale: int) -> None:
    """pgbench -i in a fresh database, no checkpoint after its beginning."""
    side.fresh_database()
    side.run("pgbench", "-i", "-q", "-s", str(scale), "bench")
    # pgbench's session counts its inserts after its own VACUUM has set the
    # counter back; autovacuum would come for them in the middle of a run
    side.run("psql", "-X", "-q", "-c", "VACUUM", "bench")
    am = side.value("SELECT amname FROM pg_class c JOIN pg_am a "
                    "ON a.oid = c.relam WHERE relname = 'pgbench_accounts'")
    if am != side.am:
        raise BenchError(f"pgbench_accounts is a {am} table, not {side.am}")
