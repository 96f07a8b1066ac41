"""Throw-away clusters, one per access method.

Both run all the time, but only one works: the others have autovacuum turned
off and nobody connected.  Not here: what is measured, and how.
"""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg2

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "t" / "python"))
from throwaway import Cluster  # noqa: E402

DATABASE = "bench"


class BenchError(Exception):
    """A step of a workload failed."""


class Side(Cluster):
    """One access method and its cluster."""

    user = "postgres"
    initdb_options = ("-A", "trust", "-E", "UTF8", "--locale=C", "-k", "-N")

    def __init__(self, am: str, bindir: Path, work: Path, port: int,
                 settings: dict[str, str]):
        super().__init__(str(bindir), am, str(work), port)
        self.am = am
        self.settings = dict(settings)
        if am != "heap":
            self.settings["shared_preload_libraries"] = "'zheap_am'"

    def program(self, name: str, *args: str, **kwargs) -> subprocess.Popen:
        env = dict(os.environ, PGHOST=self.socket, PGPORT=str(self.port),
                   PGUSER=self.user, PGDATABASE=DATABASE)
        return subprocess.Popen([os.path.join(self.bindir, name), *args],
                                env=env, stdin=subprocess.DEVNULL, **kwargs)

    def run(self, name: str, *args: str) -> str:
        """Run a program of the server to its end and return its output."""
        process = self.program(name, *args, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
        out = process.communicate()[0]
        if process.returncode != 0:
            raise BenchError(f"{name} failed on {self.am}: {out[-400:]}")
        return out

    # the cluster

    def create(self) -> None:
        self.make("log_line_prefix = '%m [%p] %q%a '\n" + "".join(
            f"{name} = {value}\n" for name, value in self.settings.items()))
        self.start()

    @property
    def running(self) -> bool:
        return self.process is not None

    def stop(self, mode: str = "fast") -> None:
        super().stop(signal.SIGINT if mode == "fast" else signal.SIGQUIT)

    def postmaster(self) -> int:
        return self.process.pid

    # sessions

    def connect(self, database: str = DATABASE, retry: float = 0.0):
        """A connection in autocommit mode, tried for `retry` seconds."""
        deadline = time.monotonic() + retry
        while True:
            try:
                c = psycopg2.connect(
                    host=str(self.socket), port=self.port, user="postgres",
                    dbname=database, application_name="bench")
                c.autocommit = True
                return c
            except psycopg2.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    @contextmanager
    def session(self, database: str = DATABASE):
        c = self.connect(database)
        try:
            with c.cursor() as cursor:
                yield cursor
        finally:
            c.close()

    def sql(self, statement: str, database: str = DATABASE):
        """Run one statement; its rows, or None."""
        with self.session(database) as cursor:
            return ask(cursor, statement)

    def value(self, statement: str):
        return self.sql(statement)[0][0]

    def fresh_database(self) -> None:
        """An empty database whose tables are of our access method."""
        self.sql(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)",
                 "postgres")
        self.sql("CHECKPOINT", "postgres")
        self.sql(f"CREATE DATABASE {DATABASE}", "postgres")
        if self.am != "heap":
            self.sql("CREATE EXTENSION zheap_am")
            self.sql(f"ALTER DATABASE {DATABASE} "
                     f"SET default_table_access_method = {self.am}")

    # whose turn it is

    def pause(self) -> None:
        """No autovacuum here from now on."""
        self._autovacuum("off")
        deadline = time.monotonic() + 20
        while self.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE backend_type = 'autovacuum worker'", "postgres"):
            if time.monotonic() > deadline:
                raise BenchError("autovacuum does not end")
            time.sleep(0.05)

    def resume(self) -> None:
        self._autovacuum("on")

    def _autovacuum(self, value: str) -> None:
        self.sql(f"ALTER SYSTEM SET autovacuum = {value}", "postgres")
        self.sql("SELECT pg_reload_conf()", "postgres")

    @property
    def undo(self) -> bool:
        return self.am == "zheap"

    def undo_size(self) -> int:
        return self.value("SELECT pg_zheap_undo_size()") if self.undo else 0


def ask(cursor, statement: str, parameters=None):
    cursor.execute(statement, parameters)
    return cursor.fetchall() if cursor.description else None
