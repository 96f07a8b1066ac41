"""What the kinds of chaos share: settings drawn from a seed, the judges that
ask a server at rest, names of knobs.
"""
import glob
import os
import random
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
sys.path.insert(0, os.path.join(HERE, "..", "differential"))
import throwaway  # noqa: E402

# words of WARNINGs that histories may cause
MAY_WARN = ("there is no transaction in progress", "there is already a transaction",
            "SET LOCAL can only", "unexpected EOF", "invalidation", "aborting wait",
            "SET CONSTRAINTS can only", "does not exist, skipping", "terminating connection because of crash",
            "is not a PostgreSQL backend process", "logical decoding does not see", "Cannot allocate memory", "some useless files may be left",
            "cannot reindex exclusion constraint index")

# core's, when decoding is cancelled in a subtransaction
throwaway.Cluster.known = ("RollbackAndReleaseCurrentSubTransaction: unexpected state",)
MAY_WARN += throwaway.Cluster.known

CHECKS = """
SELECT t.oid::regclass::text, c::text FROM pg_class t
	JOIN pg_am a ON a.oid = t.relam, LATERAL zheap_check(t.oid) c
	WHERE a.amname = 'zheap' AND t.relkind IN ('r', 'm')
	AND t.relpersistence <> 't' LIMIT 10"""
INDEX_CHECKS = """
CREATE OR REPLACE FUNCTION pg_temp.index_fault(i oid) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM bt_index_check(i, true);
	RETURN NULL;
EXCEPTION WHEN others THEN
	RETURN sqlerrm;
END $$;
SELECT i.indexrelid::regclass::text, f FROM pg_index i
	JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am b ON b.oid = x.relam
	JOIN pg_class t ON t.oid = i.indrelid,
	LATERAL pg_temp.index_fault(i.indexrelid) f
	WHERE b.amname = 'btree' AND x.relkind = 'i' AND i.indisvalid AND i.indisready
	AND x.relpersistence <> 't' AND t.relnamespace <> 'pg_catalog'::regnamespace
	AND f IS NOT NULL"""
LEFT = """
SELECT 'lock: ' || locktype || ' ' || mode || ' of ' || coalesce(pid::text, 'nobody')
	FROM pg_locks l WHERE pid IS DISTINCT FROM pg_backend_pid()
	AND locktype NOT IN ('virtualxid', 'userlock') AND NOT EXISTS (SELECT FROM
	pg_stat_activity a WHERE a.pid = l.pid AND a.backend_type <> 'client backend')
UNION ALL SELECT 'prepared: ' || gid FROM pg_prepared_xacts
UNION ALL SELECT 'undo log in use: ' || u::text FROM pg_stat_zheap_undo u
	WHERE u.state = 'attached'"""


keyed = False  # rows stay where they are when indexed columns change


class Wrong(Exception):
    """A judge's verdict."""


def knobs():
    """Names of all knobs, from the sources."""
    names = set()
    top = os.path.join(HERE, "..", "..")
    for path in glob.glob(top + "/undo/*.[ch]") + glob.glob(top + "/zheap/**/*.[ch]",
                                                         recursive=True):
        with open(path) as f:
            names |= set(re.findall(r'UNDO_KNOB\("([a-z-]+)"', f.read()))
    return sorted(names)


def settings(seed, keep=(), points=True, knobs_on=True):
    """Of a server, drawn from the seed."""
    r = random.Random(seed * 31 + 7)
    out = {
        "zheap.debug_points": r.choice([0, 5, 20, 20, 60]),
        "zheap.jump_interval": r.choice([1, 2, 2, 16]),
        "zheap.discard_naptime": "10ms",
        "zheap.max_rollback_workers": r.choice([1, 2, 4]),
        "zheap.rollback_foreground_size": r.choice(["0", "1kB", "8kB", "256kB"]),
        "shared_buffers": r.choice(["2MB", "16MB", "32MB"]),
        "max_connections": 60,
        "allow_in_place_tablespaces": "on",
        "fsync": "off",
    }
    if not points:
        out["zheap.debug_points"] = 0
    if keyed:
        out["zheap.update_indexed_in_place"] = "on"
    if knobs_on:
        out["zheap.debug_seed"] = seed
        if keep:
            out["zheap.debug_keep"] = "'%s'" % ",".join(keep)
    return "\n" + "".join("%s = %s\n" % x for x in out.items())


def at_rest(run, seconds=30):
    """run(sql) -> rows, on a server whose sessions are gone."""
    end = time.time() + seconds
    while True:
        left = [x[0] for x in run(LEFT)]
        rows = run("SELECT pg_zheap_undo_size(), u::text, h::text FROM zheap_horizons()")
        size, u, h = rows[0]
        if size == 0 and u == h and not left:
            break
        if time.time() > end:
            raise Wrong("left behind after %d s: undo %s bytes, U %s, H %s, %s; "
                        "holders %s" % (seconds, size, u, h, left[:5],
                                        run("SELECT * FROM pg_stat_zheap_undo_holders")))
        time.sleep(0.05)
    rows = run(CHECKS)
    if rows:
        raise Wrong("zheap_check: %s" % rows[:4])
    rows = run(INDEX_CHECKS)
    if rows:
        raise Wrong("bt_index_check: %s" % rows[:4])


def warnings(cluster, since=0):
    """WARNINGs of a server's log that nobody expects."""
    with open(cluster.logfile, errors="replace") as f:
        f.seek(since)
        return [x.strip() for x in f if "WARNING:" in x
                and not any(y in x for y in MAY_WARN)]
