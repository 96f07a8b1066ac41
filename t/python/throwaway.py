"""Throw-away clusters for the random tests and the bench: made, started, killed as a power
cut kills them (all processes of the cluster at once), dropped.

The postmaster is a child of the test, so that it is reaped when it dies; that
is why pg_ctl isn't used.
"""
import atexit
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import psycopg2

FAULTS = ("TRAP", "PANIC", "runtime error:", "AddressSanitizer", "terminated by signal", "could not roll back",
          "inconsistent page", "refcount leak", "reference leak",
          "resource was not closed", "detected write past", "XX000", "XX001", "XX002")
# core's own fault after a crash, see "A fault of core's own after a crash" in t/README.md
STARTS_AGAIN = re.compile(r'FATAL: .*could not create file "[^"]*": File exists')


def become_ordinary(script):
    """Servers refuse to run as root: root runs the script as postgres."""
    if os.geteuid() == 0:
        os.execvp("runuser", ["runuser", "-u", "postgres", "--",
                              sys.executable, os.path.abspath(script)]
                  + sys.argv[1:])
    os.chdir("/")
    # so that a test that is stopped takes its servers with it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


class Difference(Exception):
    """The tables disagree, or something else that must not be."""


def play_history(history, seed, sum_up, last):
    """history.play(), which notes its statements in history.done, on history.node.
    Prints sum_up(), or why it ended before, with so many of the last statements.
    Returns whether it came to its end."""
    begin = time.time()
    try:
        history.play()
    except Exception as e:  # every failure ends this history, is reported
        print("seed %d FAILED: %s: %s\n%s" % (seed, type(e).__name__, e, "\n".join(history.done[-last:])))
        print("\n".join(history.node.log_faults()[:10]))
        if not isinstance(e, Difference):
            traceback.print_exc(file=sys.stdout)
        return False
    print("seed %d ok: %s, %.1f s" % (seed, sum_up(), time.time() - begin))
    return True


def play_seeds(seeds, play):
    """play(seed), which prints what became of it and says whether it went well,
    for each of FIRST-LAST; prints how many did.  Returns an exit status."""
    first, _, last = seeds.partition("-")
    results = []
    for seed in range(int(first), int(last or first) + 1):
        results.append(bool(play(seed)))
        sys.stdout.flush()
    print("%d passed, %d failed" % (results.count(True), results.count(False)))
    return 0 if all(results) else 1


class Cluster:
    user = "tester"
    initdb_options = ("-A", "trust", "-N", "-k")
    patterns = {}
    known = ()				# what may stand in lines of the log all the same

    def __init__(self, bindir, name="node", root=None, port=5432):
        self.bindir = bindir
        self.port = port
        self.own_root = root is None
        self.root = root or tempfile.mkdtemp(prefix="zheap_random_")
        self.name = name
        self.data = os.path.join(self.root, name)
        self.logfile = os.path.join(self.root, name + ".log")
        self.socket = os.path.join(self.root, name + ".s")
        os.makedirs(self.socket, exist_ok=True)
        self.process = None
        self.launched = ()
        self.logged = 0
        atexit.register(self.kill)

    def dsn(self, database="postgres"):
        return "host=%s port=%d dbname=%s user=%s" % (
            self.socket, self.port, database, self.user)

    def tool(self, name, *args):
        done = subprocess.run([os.path.join(self.bindir, name), *args],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        if done.returncode != 0:
            raise RuntimeError("%s %s failed:\n%s" % (
                name, " ".join(args), done.stdout.decode(errors="replace")[-3000:]))
        return done.stdout.decode(errors="replace")

    def make(self, settings):
        """initdb, with these settings beside those of where it listens."""
        # the first one of a test is kept, for initdb takes longer than a copy
        kind = (self.bindir, self.user, self.initdb_options)
        pattern = Cluster.patterns.get(kind)
        if pattern is None:
            pattern = tempfile.mkdtemp(prefix="zheap_random_")
            self.tool("initdb", "-D", pattern, "-U", self.user,
                      *self.initdb_options)
            Cluster.patterns[kind] = pattern
            atexit.register(shutil.rmtree, pattern, True)
        shutil.copytree(pattern, self.data)
        os.chmod(self.data, 0o700)
        self.configure("postgresql.conf", """
listen_addresses = ''
port = %d
""" % self.port + settings)

    def init(self, settings=""):
        self.make("""
shared_preload_libraries = 'zheap_am'
log_line_prefix = '%m [%p] %e '
max_prepared_transactions = 30
""" + settings)

    def configure(self, file, text):
        with open(os.path.join(self.data, file), "a") as f:
            f.write(text)

    def launch(self, *settings):
        """Start the postmaster without waiting for the end of recovery."""
        self.launched = settings
        # one that was killed as it began leaves empty lock files, which the
        # next doesn't dare to remove
        for lock in (os.path.join(self.data, "postmaster.pid"),
                     os.path.join(self.socket, ".s.PGSQL.%d.lock" % self.port)):
            if os.path.exists(lock) and os.path.getsize(lock) == 0:
                os.remove(lock)
        with open(self.logfile, "a") as log:
            self.process = subprocess.Popen(
                [os.path.join(self.bindir, "postgres"), "-D", self.data,
                 "-k", self.socket] + [w for s in settings for w in ("-c", s)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)

    def wait_ready(self, seconds=120):
        end = time.time() + seconds
        starts_again = 3
        while True:
            try:
                return psycopg2.connect(self.dsn())
            except psycopg2.OperationalError:
                if self.process.poll() is not None:
                    if STARTS_AGAIN.search(self.log_tail(10)) and starts_again:
                        starts_again -= 1
                        self.launch(*self.launched)
                        continue
                    raise RuntimeError("the server did not start:\n"
                                       + self.log_tail())
                if time.time() > end:
                    raise RuntimeError("the server isn't ready after %d s:\n%s"
                                       % (seconds, self.log_tail()))
                time.sleep(0.03)

    def start(self, *settings):
        self.launch(*settings)
        self.wait_ready().close()

    def stop(self, sig=signal.SIGINT):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(sig)
            self.process.wait(120)
        self.process = None

    def children(self):
        found = []
        for stat in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(stat) as f:
                    pid, rest = f.read().split(" ", 1)
            except OSError:
                continue
            fields = rest.rpartition(")")[2].split()
            if int(fields[1]) == self.process.pid:
                found.append((int(pid), fields[0]))
        return found

    def kill(self):
        """SIGKILL to all processes; returns when the last one is gone."""
        if self.process is None:
            return
        pid = self.process.pid
        try:
            os.kill(pid, signal.SIGSTOP)
            children = [p for p, _ in self.children()]
        except ProcessLookupError:
            children = []
        # children first: one that outlives the postmaster ends by itself, with
        # a failed assertion of core's if it was about to end parallel workers
        for process in children + [pid]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.process = None
        for _ in range(300):
            if not any(alive(p) for p in children):
                break
            time.sleep(0.02)

    def log_tail(self, n=40):
        if not os.path.exists(self.logfile):
            return ""
        with open(self.logfile, errors="replace") as f:
            return "".join(f.readlines()[-n:])

    def log_faults(self):
        """Lines since the last call that no test may cause."""
        if not os.path.exists(self.logfile):
            return []
        with open(self.logfile, errors="replace") as f:
            f.seek(self.logged)
            text = f.read()
            self.logged = f.tell()
        return [x for x in text.splitlines() if any(y in x for y in FAULTS)
                and not any(y in x for y in Cluster.known)]

    def drop(self, keep=False):
        self.kill()
        if keep:
            print("cluster kept in " + self.root)
        elif self.own_root:
            shutil.rmtree(self.root, ignore_errors=True)
        else:
            shutil.rmtree(self.data, ignore_errors=True)


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
