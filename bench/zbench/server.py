"""Throw-away clusters, one per access method.

Both run all the time, but only one works: the others have autovacuum turned
off and nobody connected.  Not here: what is measured, and how.
"""
from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg2

DATABASE = "bench"


class BenchError(Exception):
    """A step of a workload failed."""


class Side:
    """One access method and its cluster."""

    def __init__(self, am: str, bindir: Path, work: Path, port: int,
                 settings: dict[str, str]):
        self.am = am
        self.bindir = bindir
        self.data = work / am
        self.socket = work / "s"
        self.port = port
        self.settings = dict(settings)
        if am != "heap":
            self.settings["shared_preload_libraries"] = "'zheap_am'"
        self.running = False

    def program(self, name: str, *args: str, **kwargs) -> subprocess.Popen:
        env = dict(os.environ, PGHOST=str(self.socket), PGPORT=str(self.port),
                   PGUSER="postgres", PGDATABASE=DATABASE)
        return subprocess.Popen([str(self.bindir / name), *args], env=env,
                                stdin=subprocess.DEVNULL, **kwargs)

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
        self.run("initdb", "-D", str(self.data), "-U", "postgres", "-A",
                 "trust", "-E", "UTF8", "--locale=C", "-k", "-N")
        with open(self.data / "postgresql.conf", "a") as conf:
            conf.write(f"listen_addresses = ''\nport = {self.port}\n"
                       f"unix_socket_directories = '{self.socket}'\n"
                       "log_line_prefix = '%m [%p] %q%a '\n")
            for name, value in self.settings.items():
                conf.write(f"{name} = {value}\n")
        self.start()

    def start(self, *settings: str) -> None:
        options = " ".join(f"-c {s}" for s in settings)
        # not self.run: the server would keep its end of a pipe open
        with open(f"{self.data}.ctl.log", "a") as log:
            process = self.program(
                "pg_ctl", "-D", str(self.data), "-l", f"{self.data}.log", "-w",
                "-t", "300", "-o", options, "start", stdout=log,
                stderr=subprocess.STDOUT)
            if process.wait() != 0:
                raise BenchError(f"the {self.am} server did not start: "
                                 + self.log_tail())
        self.running = True

    def stop(self, mode: str = "fast") -> None:
        self.running = False
        self.run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "-t", "300",
                 "stop")

    def kill(self) -> None:
        """kill -9 of the postmaster and all its children."""
        from .measure import children_of
        pid = self.postmaster()
        victims = [pid, *children_of(pid)]
        for victim in victims:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + 30
        while any(alive(v) for v in victims):
            if time.monotonic() > deadline:
                raise BenchError("the killed server does not go away")
            time.sleep(0.02)
        # where nobody reaps it, its process number still seems to live
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        lock = self.socket / f".s.PGSQL.{self.port}.lock"
        lock.unlink(missing_ok=True)
        self.running = False

    def postmaster(self) -> int:
        with open(self.data / "postmaster.pid") as f:
            return int(f.readline())

    def log_tail(self) -> str:
        try:
            return Path(f"{self.data}.log").read_text()[-2000:]
        except OSError:
            return ""

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


def alive(pid: int) -> bool:
    """Is this process there and not a zombie?"""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
