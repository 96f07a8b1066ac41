"""Histories of other random tests, under knobs and points drawn from the seed.

  ddl     t/stress/ddl.py: definitions that roll back, heap is the judge
  serial  t/stress/serializable.py: conflicts of SERIALIZABLE transactions
  model   t/model/model_check.py: a list of versions says what is seen

Each returns what went wrong, or None.
"""
import os
import sys

import psycopg2

from common import Wrong, at_rest, settings, throwaway, warnings

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("stress", "model"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
import ddl as ddl_test  # noqa: E402
import model_check  # noqa: E402
import serializable  # noqa: E402

# writers wait for room for an xact slot where heap's don't
KEEP = ["xact-slots-kept"]


def connect(cluster, database="postgres"):
    conn = psycopg2.connect(cluster.dsn(database))
    conn.autocommit = True
    return conn


def judge(cluster, database, crashed=False):
    """Of a server whose sessions are gone."""
    conn = connect(cluster, database)

    def run(sql):
        cur = conn.cursor()
        cur.execute(sql)
        return cur.fetchall() if cur.description else None
    run("SET zheap.debug_points = 0; CREATE EXTENSION IF NOT EXISTS amcheck")
    at_rest(run)
    conn.close()
    said = [] if crashed else warnings(cluster)
    said += cluster.log_faults()
    if said:
        raise Wrong("server log: " + "; ".join(said[:4]))


def text_of(e, lines):
    return "%s: %s\n%s" % (type(e).__name__, e, "\n".join(lines))


def ddl(args, seed):
    cluster = throwaway.Cluster(args.bindir)
    cluster.init(ddl_test.SETTINGS + settings(seed, KEEP))
    history = None
    try:
        cluster.start()
        conn = connect(cluster)
        conn.cursor().execute("CREATE TABLESPACE place LOCATION ''")
        conn.close()
        history = ddl_test.History(cluster, seed, args.am, args.verbose)
        history.play(args.steps * 2 // 3)
        history.close()
        judge(cluster, "zheap")
        return None
    except (ddl_test.Difference, psycopg2.Error, Wrong) as e:
        lines = [] if history is None else history.lines
        lines = [x for x in lines if "SET LOCAL" not in x and "looking" not in x]
        return text_of(e, lines[-60:] + cluster.log_faults()[:5])
    finally:
        cluster.drop(args.keep)


def serial(args, seed):
    cluster = throwaway.Cluster(args.bindir)
    cluster.init(serializable.SETTINGS + settings(seed, KEEP))
    history = None
    args.level = "SERIALIZABLE"
    try:
        cluster.start()
        serializable.Session(cluster.dsn(), 0).execute("CREATE EXTENSION zheap_am")
        # the first look for faults of a few steps finds most of them
        for part in range(4):
            history = serializable.History(cluster, seed * 10 + part, args)
            history.play(args.steps)
            history.close()
        judge(cluster, "postgres")
        return None
    except (serializable.Fault, psycopg2.Error, Wrong) as e:
        return text_of(e, ([] if history is None else history.lines[-200:])
                       + cluster.log_faults()[:5])
    finally:
        cluster.drop(args.keep)


def model(args, seed):
    cluster = model_check.ModelCluster(args.bindir, args.am, args.keyed)
    # heap wouldn't wait, nor does the model know that
    cluster.drawn = settings(seed, KEEP)
    checker = model_check.Checker(cluster, seed, args.verbose, args.keyed)
    try:
        cluster.create()
        checker.history_of(args.steps * 2 // 3)
        conn = connect(cluster)
        conn.cursor().execute("ALTER SYSTEM RESET ALL")
        conn.cursor().execute("SELECT pg_reload_conf()")
        conn.close()
        judge(cluster, "postgres", True)
        return None
    except (model_check.Difference, psycopg2.Error, Wrong, RuntimeError) as e:
        return text_of(e, checker.history[-40:] + cluster.log_faults()[:5])
    finally:
        cluster.drop(args.keep)
