#!/usr/bin/python3
"""Strangers: a role without rights, and one of pg_monitor, call all functions of the
extension and read all its views, with arguments at random and a search_path of their
own, in which operators and functions of pg_catalog have namesakes.  These namesakes
note who runs them, and try to make their author a superuser.  Meanwhile a table's
owner updates rows, whose indexes have expressions that leave names to the search
path, and VACUUM and the workers go over them.

Wrong is: a namesake that ran as anybody but who called it; a stranger with more
rights than before; a row changed; a crash, or an answer of XX000, XX001 or XX002; a
call without rights that isn't refused with 42501.

usage: strangers.py --bindir DIR [--seeds FIRST-LAST] [--calls N]
"""
import argparse
import os
import random
import sys

import psycopg2

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import throwaway  # noqa: E402

ROLES = ("nobody", "monitor")
SCHEMA = """
CREATE EXTENSION zheap_am;
CREATE ROLE owner LOGIN; CREATE ROLE nobody LOGIN; CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
CREATE SCHEMA evil_nobody AUTHORIZATION nobody; CREATE SCHEMA evil_monitor AUTHORIZATION monitor;
GRANT ALL ON SCHEMA public TO PUBLIC;
CREATE TABLE public.ran (who name, called_by name, what text); GRANT ALL ON public.ran TO PUBLIC;
SET SESSION AUTHORIZATION owner;
CREATE FUNCTION public.key_of(a int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
    $$ BEGIN RETURN abs(a) + length(a::text) % 7; END $$;
CREATE FUNCTION public.wanted(a int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS
    $$ BEGIN RETURN a >= 0 AND length(a::text) < 9; END $$;
CREATE TABLE public.t (id int PRIMARY KEY, k int, s text) USING zheap;
CREATE INDEX t_key ON public.t (public.key_of(k)) WHERE public.wanted(k);
CREATE INDEX t_k ON public.t (k);
CREATE TABLE public.hidden (a int, b text) USING zheap;
CREATE TABLE public.part (a int) PARTITION BY LIST (a);
CREATE TABLE public.h (a int) USING heap;
CREATE UNLOGGED TABLE public.un (a int) USING zheap;
INSERT INTO public.t SELECT g, g, repeat('s', g % 50) FROM generate_series(1, 400) g;
INSERT INTO public.hidden SELECT g, 'secret ' || g FROM generate_series(1, 50) g;
INSERT INTO public.un SELECT generate_series(1, 50);
"""
# namesakes: (name, arguments, result, what pg_catalog's does)
EVIL = [("abs", "int", "int", "CASE WHEN $1 < 0 THEN 0 OPERATOR(pg_catalog.-) $1 ELSE $1 END"),
        ("length", "text", "int", "pg_catalog.length($1)"), ("count", "int", "int", "$1"),
        ("current_setting", "text", "text", "''"), ("format", "text", "text", "$1"),
        ("pg_relation_size", "regclass", "bigint", "0"), ("now", "", "timestamptz", "pg_catalog.now()")]
EVIL_OPERATORS = [("+", "int", "int", "int4pl"), ("%", "int", "int", "int4mod"), (">=", "int", "bool", "int4ge"),
                  ("<", "int", "bool", "int4lt"), ("=", "int", "bool", "int4eq"), ("=", "oid", "bool", "oideq"),
                  ("<", "oid", "bool", "oidlt")]
BODY = """$$ BEGIN
    INSERT INTO public.ran VALUES (current_user, session_user, '%s');
    BEGIN EXECUTE 'ALTER ROLE %s SUPERUSER'; EXCEPTION WHEN OTHERS THEN NULL; END;
    RETURN %s;
END $$"""
NUMBERS = ["0", "1", "-1", "2", "3", "7", "255", "2147483647", "-2147483648", "4294967295", "4294967296",
           "9223372036854775807", "-9223372036854775808", "NULL"]
TABLES = ["'public.t'", "'public.hidden'", "'public.h'", "'public.part'", "'public.t_k'", "'public.un'", "'pg_class'",
          "'pg_stat_activity'", "'pg_toast.pg_toast_1255'", "0", "4294967295", "1", "NULL"]
TYPES = {"bigint": "int8", "integer": "int4", "boolean": "bool"}
VALUES = {"regclass": TABLES, "oid": TABLES[:8] + NUMBERS[:6], "boolean": ["true", "false", "NULL"],
          "interval": ["'0'", "'1 ms'", "'-1 s'", "'20 ms'", "'infinity'", "'178000000 years'", "NULL"],
          "internal": ["NULL"]}


NO_RELATION = "could not open relation with OID"
throwaway.Cluster.known = (NO_RELATION, "XX000 STATEMENT")


def quiet(cur, sql):
    """None or the SQLSTATE.  Core answers XX000 where there is no such relation."""
    try:
        cur.execute(sql)
        if cur.description:
            cur.fetchall()
        return None
    except psycopg2.Error as e:
        if e.pgcode is None:
            raise throwaway.Difference("connection lost by: %s" % sql) from e
        return "42P01" if NO_RELATION in str(e) else e.pgcode


class History:
    def __init__(self, bindir, seed, calls):
        self.r = random.Random(seed)
        self.calls = calls
        self.done = []
        self.node = throwaway.Cluster(bindir)

    def connect(self, role):
        conn = psycopg2.connect(self.node.dsn().replace("user=tester", "user=" + role))
        conn.autocommit = True
        return conn.cursor()

    def make_evil(self, role):
        cur = self.connect(role)
        cur.execute("GRANT USAGE ON SCHEMA evil_%s TO PUBLIC; SET search_path = evil_%s" % (role, role))
        for name, args, result, body in EVIL:
            cur.execute("CREATE FUNCTION %s(%s) RETURNS %s LANGUAGE plpgsql AS %s" % (
                name, args, result, BODY % (name, role, body)))
        for name, kind, result, usual in EVIL_OPERATORS:
            own = "%s_%s" % (usual, role)
            cur.execute("CREATE FUNCTION %s(%s, %s) RETURNS %s LANGUAGE plpgsql AS %s" % (
                own, kind, kind, result, BODY % (own, role, "pg_catalog.%s($1, $2)" % usual)))
            if quiet(cur, "CREATE OPERATOR evil_%s.%s (FUNCTION = %s, LEFTARG = %s, RIGHTARG = %s)" % (
                    role, name, own, kind, kind)) is not None:
                raise throwaway.Difference("no operator " + name)
        cur.execute("CREATE OR REPLACE FUNCTION pg_temp.abs(int) RETURNS int LANGUAGE plpgsql AS "
                    + BODY % ("pg_temp.abs", role, "$1"))

    def call(self, role, cur):
        r = self.r
        if r.random() < 0.15:
            cur.execute(r.choice([
                "SET search_path = evil_nobody, evil_monitor, public, pg_catalog",
                "SET search_path = evil_monitor, evil_nobody, pg_temp, pg_catalog",
                "SET search_path = pg_temp, evil_nobody, public", "SET search_path = ''", "SET row_security = off"]))
        if r.random() < 0.3:
            sql = "SELECT * FROM public.%s" % r.choice(self.views)
            public = "_tables" in sql
        else:
            name, types, rights = r.choice(self.functions)
            args = ["%s::pg_catalog.%s" % (r.choice(VALUES.get(t, NUMBERS)),
                                           TYPES.get(t, t))
                    for t in types]
            sql = "SELECT * FROM public.%s(%s)" % (name, ", ".join(args))
            public = rights is None or any(x.startswith("NULL") for x in args)  # strict
        code = quiet(cur, sql)
        self.done.append("%s: %s -> %s" % (role, sql, code))
        if code is not None and code[:3] == "XX0":
            raise throwaway.Difference("an internal error")
        if role == "nobody" and not public and code not in ("42501", "22003", "22007", "22008", "42P01"):
            raise throwaway.Difference("not refused")

    def play(self):
        node, r = self.node, self.r
        node.init("fsync = off\nautovacuum_naptime = 1s\nzheap.discard_naptime = 10ms\n"
                  "zheap.rollback_foreground_size = 0\nzheap.update_indexed_in_place = %s\n"
                  "statement_timeout = 20s\n" % r.choice(["on", "off"]))
        node.start()
        cur = self.connect("tester")
        cur.execute(SCHEMA)
        cur.execute("RESET SESSION AUTHORIZATION")
        cur.execute("SELECT proname, array(SELECT format_type(x, NULL) FROM unnest(proargtypes) x), proacl::text "
                    "FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e' "
                    "JOIN pg_extension e ON e.oid = d.refobjid WHERE extname = 'zheap_am' "
                    "AND proname <> 'zheap_handler' ORDER BY 1")
        self.functions = cur.fetchall()
        cur.execute("SELECT relname FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.deptype = 'e' "
                    "JOIN pg_extension e ON e.oid = d.refobjid WHERE extname = 'zheap_am' AND relkind = 'v' ORDER BY 1")
        self.views = [x[0] for x in cur.fetchall()]
        for role in ROLES:
            self.make_evil(role)
        curs = {role: self.connect(role) for role in ROLES}
        for role in ROLES:
            curs[role].execute("SET search_path = evil_%s, public, pg_catalog" % role)
        mine = self.connect("owner")
        for i in range(self.calls):
            role = r.choice(ROLES)
            self.call(role, curs[role])
            if i % 9 == 0:
                k = r.randrange(400)
                mine.execute("BEGIN; UPDATE public.t SET k = k + 1, s = s || 'x' WHERE id %% 40 = %d; %s" % (
                    k % 40, r.choice(["ROLLBACK", "UPDATE public.t SET k = k - 1 WHERE id %% 40 = %d; COMMIT"
                                      % (k % 40)])))
            if i % 50 == 49:
                cur.execute(r.choice(["VACUUM public.t", "ANALYZE public.t", "REINDEX TABLE public.t",
                                      "SELECT * FROM zheap_check('public.t', true)"]))
        self.examine(cur)

    def examine(self, cur):
        cur.execute("SELECT rolname FROM pg_roles WHERE rolsuper AND rolname <> 'tester'")
        if cur.rowcount:
            raise throwaway.Difference("superusers: %s" % cur.fetchall())
        cur.execute("SELECT DISTINCT who, called_by, what FROM public.ran WHERE who <> called_by OR who NOT IN "
                    "('nobody', 'monitor')")
        if cur.rowcount:
            raise throwaway.Difference("ran as another: %s" % cur.fetchall())
        cur.execute("SELECT count(*), sum(k) FROM public.t")
        if cur.fetchone() != (400, 80200):
            raise throwaway.Difference("rows of the table are others")
        for table in ("t", "hidden", "un"):
            cur.execute("SELECT * FROM zheap_check('public.%s', true)" % table)
            if cur.rowcount > 0:
                raise throwaway.Difference("zheap_check: %s" % cur.fetchall())
        faults = self.node.log_faults()
        if faults:
            raise throwaway.Difference("in the log: %s" % faults[:5])

    def sum_up(self):
        return "%d calls" % len(self.done)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bindir", required=True)
    ap.add_argument("--seeds", default="1-5")
    ap.add_argument("--calls", type=int, default=600)
    args = ap.parse_args()
    throwaway.become_ordinary(__file__)

    def play(seed):
        history = History(args.bindir, seed, args.calls)
        try:
            return throwaway.play_history(history, seed, history.sum_up, 5)
        finally:
            history.node.drop()
    sys.exit(throwaway.play_seeds(args.seeds, play))


if __name__ == "__main__":
    main()
