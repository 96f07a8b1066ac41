"""Random schemas and statements for differential.py.

Statements that change or lock several rows visit them in the order of the
primary key on both sides (index scans only: seqscan, bitmapscan, hash and
merge joins are off), since which rows are changed before one blocks or fails
is seen by others.  Unordered ones run only while nobody else has a
transaction.
"""
import random

from psycopg2 import extensions

IDLE = extensions.TRANSACTION_STATUS_IDLE
INTRANS = extensions.TRANSACTION_STATUS_INTRANS
INERROR = extensions.TRANSACTION_STATUS_INERROR
READER, KEEPER = 4, 5		# sessions 0..3 write
NSESSIONS = 6
ROWS = 40
LOCKS = ["FOR UPDATE", "FOR NO KEY UPDATE", "FOR SHARE", "FOR KEY SHARE"]

PLANNER = """
SET enable_seqscan = off; SET enable_bitmapscan = off;
SET enable_hashjoin = off; SET enable_mergejoin = off;
SET max_parallel_workers_per_gather = 0; SET deadlock_timeout = '20s';
SET client_min_messages = error; SET bytea_output = hex"""


def same(key):
    """Of joins.  An own new row and the old one of its key, which somebody else has
    deleted since, are both seen at REPEATABLE READ; a join by = on a unique key
    would stop at the first."""
    return " BETWEEN %s AND %s" % (key, key)


def schema(r, access_method):
    """SQL texts that make one database; all choices come from r."""
    deferr = r.choice(["", "DEFERRABLE", "DEFERRABLE INITIALLY DEFERRED"])
    action = r.choice(["", "ON DELETE CASCADE", "ON DELETE SET NULL",
                       "ON UPDATE CASCADE ON DELETE CASCADE",
                       "ON UPDATE CASCADE ON DELETE SET NULL"])
    out = ["SET default_table_access_method = " + access_method + ";;" + """
CREATE TABLE t (id int PRIMARY KEY, k int, u int, v int NOT NULL DEFAULT 0,
	s text, x text, g int GENERATED ALWAYS AS (v * 2 + coalesce(k, 0)) STORED)
	WITH (fillfactor = %d);
ALTER TABLE t ALTER x SET STORAGE %s;
CREATE INDEX t_k ON t (k, id);
CREATE UNIQUE INDEX t_u ON t (u) WHERE %s;
CREATE TABLE c (id int PRIMARY KEY, pid int REFERENCES t (id) %s %s,
	w int, s text);
CREATE INDEX c_pid ON c (pid, id);
CREATE TABLE d (id int PRIMARY KEY, q int, v int CHECK (v > -5),
	CONSTRAINT d_q UNIQUE (q) DEFERRABLE INITIALLY %s);
CREATE TABLE p (id int, k int, v int, s text, PRIMARY KEY (id, k))
	PARTITION BY RANGE (k);
CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (3);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (3) TO (6);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (6) TO (8) USING heap;
CREATE TABLE log (what text)""" % (
        r.choice([100, 100, 70, 40]), r.choice(["EXTERNAL", "EXTENDED", "MAIN"]),
        r.choice(["k > 3", "true", "v >= 0"]), action, deferr,
        r.choice(["DEFERRED", "IMMEDIATE"]))]
    if r.random() < 0.4:
        out.append("CREATE INDEX t_e ON t ((v % 5), id)")
    if r.random() < 0.3:
        out.append("CREATE INDEX t_i ON t (k, id) INCLUDE (v)")
    if r.random() < 0.2:
        out.append("CREATE INDEX t_h ON t USING hash (s)")
    if r.random() < 0.3:
        out.append("ALTER TABLE d ADD CONSTRAINT d_x EXCLUDE USING btree "
                   "(v WITH =) WHERE (v > 50)")
    out.append(triggers(r))
    out.append("""
INSERT INTO t (id, k, u, v, s, x) SELECT g, g %% 7, g, g %% 5,
	repeat('s', g %% 30), repeat(md5(g::text), g %% 3 * 40)
	FROM generate_series(1, %d) g;
INSERT INTO c SELECT g, g / 2 + 1, g, repeat('c', g %% 9)
	FROM generate_series(1, %d) g;
INSERT INTO d SELECT g, g, g FROM generate_series(1, %d) g;
INSERT INTO p SELECT g, g %% 8, g, 'p' FROM generate_series(1, %d) g""" % (
        ROWS, ROWS // 2, ROWS // 3, ROWS // 2))
    return out


# rows that may stay in place while these columns change: half of the seeds
# without the other kinds of indexes over them
KEYED = """
CREATE INDEX t_k2 ON t (k);
CREATE INDEX t_v ON t (v, k);
CREATE INDEX t_s ON t (s);
CREATE INDEX c_w ON c (w);
CREATE INDEX p_v ON p (v)"""
SOFT = """
DROP INDEX IF EXISTS t_e, t_i, t_h, t_u;
CREATE UNIQUE INDEX t_u ON t (u)"""
# soft indexes with more than plain keys
WIDE = """
CREATE INDEX t_w ON t (k, v) WHERE u > 20;
CREATE INDEX t_j ON t (k, amount) INCLUDE (u);
CREATE INDEX t_y ON t ((u % 3), v)"""


def keyed_schema(r, access_method):
    # amount has values that are equal and differ
    out = schema(r, access_method) + [
        KEYED, "ALTER TABLE t ADD amount numeric DEFAULT 1; CREATE INDEX t_n ON t (amount, k)"]
    if r.random() < 0.5:
        out.append(SOFT)
    if r.random() < 0.6:
        out.append(";".join(r.sample(WIDE.split(";"), r.randrange(1, 4))))
    return out


def triggers(r):
    out = ["""
CREATE FUNCTION brief(a t) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(',', a.id, a.k, a.u, a.v, md5(a.s), md5(a.x), a.g) $$;
CREATE FUNCTION t_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		IF OLD.v % 13 = 7 THEN RETURN NULL; END IF;
		RETURN OLD;
	END IF;
	IF NEW.v % 11 = 5 AND TG_OP = 'UPDATE' THEN RETURN NULL; END IF;
	IF NEW.v % 7 = 3 THEN NEW.s := right(coalesce(NEW.s, '') || '+', 500); END IF;
	IF NEW.v % 17 = 9 THEN RAISE EXCEPTION 'refused' USING ERRCODE = 'P0009'; END IF;
	RETURN NEW;
END $$;
CREATE FUNCTION t_after() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log VALUES (TG_NAME || ' ' || TG_OP || ' '
		|| CASE WHEN TG_OP <> 'INSERT' THEN brief(OLD) ELSE '' END || ' -> '
		|| CASE WHEN TG_OP <> 'DELETE' THEN brief(NEW) ELSE '' END);
	RETURN NULL;
END $$;
CREATE FUNCTION t_sum() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log SELECT 'statement ' || count(*) || ' '
		|| coalesce(sum(o.v), 0) || ' ' || string_agg(brief(o), ';' ORDER BY o.id)
		FROM olds o;
	INSERT INTO log SELECT 'statement new ' || string_agg(brief(n), ';' ORDER BY n.id)
		FROM news n;
	RETURN NULL;
END $$;
CREATE FUNCTION c_after() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE t SET v = v + 1 WHERE id = NEW.pid;
	RETURN NULL;
END $$"""]
    if r.random() < 0.6:
        out.append("CREATE TRIGGER t_before BEFORE INSERT OR UPDATE OR DELETE "
                   "ON t FOR EACH ROW EXECUTE FUNCTION t_before()")
    if r.random() < 0.7:
        out.append("CREATE TRIGGER t_after AFTER INSERT OR UPDATE OR DELETE "
                   "ON t FOR EACH ROW EXECUTE FUNCTION t_after()")
    if r.random() < 0.3:
        out.append("CREATE TRIGGER t_when AFTER UPDATE ON t FOR EACH ROW "
                   "WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION t_after()")
    if r.random() < 0.4:
        out.append("CREATE TRIGGER t_sum AFTER UPDATE ON t REFERENCING "
                   "OLD TABLE AS olds NEW TABLE AS news FOR EACH STATEMENT "
                   "EXECUTE FUNCTION t_sum()")
    if r.random() < 0.4:
        out.append("CREATE CONSTRAINT TRIGGER t_late AFTER UPDATE OR DELETE ON t "
                   "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
                   "EXECUTE FUNCTION t_after()")
    if r.random() < 0.5:
        out.append("CREATE TRIGGER c_after AFTER INSERT ON c FOR EACH ROW "
                   "EXECUTE FUNCTION c_after()")
    return ";".join(out)


class Generator:
    """Steps for a player, by what its sessions are in the middle of."""

    keyed = False  # half of all updates change columns with an index

    def __init__(self, r, player, vacuum_full):
        self.r, self.player, self.vacuum_full = r, player, vacuum_full
        self.depth = [0] * NSESSIONS
        self.cursors = [[] for _ in range(NSESSIONS)]
        self.repeatable = [False] * NSESSIONS
        self.gids = []
        self.counter = 0
        self.columns = []
        # what a seed is about: how often a few rows are met, and how strict
        self.heat = r.choice([0, 0.3, 0.6])
        self.levels = r.choice([
            (4, 3, 3), (4, 3, 3), (5, 5, 0), (1, 0, 0), (0, 0, 1), (1, 1, 6)])
        self.deletes = r.choice([1, 2, 4])

    # ---- values

    def id(self):
        r = self.r
        if r.random() < self.heat:
            return r.randrange(3, 9)
        return min(r.randrange(1, ROWS + 8), r.randrange(1, ROWS + 8))

    def number(self):
        self.counter += 1
        return self.counter

    def span(self):
        a = self.id()
        return "BETWEEN %d AND %d" % (a, a + self.r.choice([0, 1, 3, 8]))

    def text(self):
        r = self.r
        return r.choice([
            "repeat('%s', %d)" % (r.choice("abc"), r.choice([0, 1, 5, 30, 90])),
            "repeat('%s', %d)" % (r.choice("xyz"), r.choice([150, 400, 1200])),
            "left(s || s || 'q', 700)", "left(s, 3)", "s || 'm'", "NULL"])

    def long_text(self):
        r = self.r
        return r.choice([
            "(SELECT string_agg(md5((g + %d)::text), '') FROM generate_series(1, %d) g)"
            % (r.randrange(1000), r.choice([3, 20, 70, 200])),
            "repeat('w', %d)" % r.choice([10, 500, 5000]), "NULL", "x || 'e'"])

    # ---- choosing

    def others_idle(self, session):
        return all(self.player.status(s) == IDLE
                   for s in range(NSESSIONS) if s != session) \
            and self.player.waiter is None and not self.gids

    def play(self):
        """One step (or a few) of a session that can take one."""
        r = self.r
        able = [s for s in range(NSESSIONS) if self.player.may_step(s)]
        s = r.choice(able + [x for x in able if x < READER] * 2)
        if s == KEEPER:
            return self.keep(s)
        status = self.player.status(s)
        if status == INERROR:
            if self.depth[s] > 0 and r.random() < 0.7:
                return self.rollback_to(s)
            if r.random() < 0.1:
                return self.step(s, "SELECT 1")
            return self.end(s, r.choice(["ROLLBACK", "COMMIT"]))
        if status == IDLE:
            return self.outside(s)
        if s == READER:
            if r.random() < 0.06:
                return self.end(s, "COMMIT")
            return self.read(s)
        x = r.random()
        stay = 0.06 if self.repeatable[s] else 0.13
        if self.player.waiter is not None:
            stay *= 2
        if x < stay:
            return self.finish(s)
        if x < stay + 0.08 and self.depth[s] < 3:
            self.depth[s] += 1
            return self.step(s, "SAVEPOINT s%d" % self.depth[s])
        if x < stay + 0.13 and self.depth[s] > 0:
            return self.rollback_to(s)
        if x < stay + 0.16 and self.depth[s] > 0:
            self.depth[s] -= 1
            return self.step(s, "RELEASE s%d" % (self.depth[s] + 1))
        if x < stay + 0.36:
            return self.read(s)
        return self.change(s)

    def step(self, s, sql, ordered=False):
        self.player.step(s, sql, ordered)

    def outside(self, s):
        """A session without a transaction."""
        r = self.r
        self.depth[s] = 0
        self.cursors[s] = []
        if s < READER and self.gids and r.random() < \
                (0.5 if self.player.waiter is not None else 0.15):
            gid = self.gids.pop(r.randrange(len(self.gids)))
            return self.step(s, "%s PREPARED '%s'" % (
                r.choice(["COMMIT", "ROLLBACK"]), gid))
        x = r.random()
        if s == READER or x < 0.75:
            level = r.choices(["READ COMMITTED", "REPEATABLE READ",
                               "SERIALIZABLE"], self.levels)[0]
            if s == READER:
                level = "REPEATABLE READ"
            self.repeatable[s] = level != "READ COMMITTED"
            self.step(s, "BEGIN ISOLATION LEVEL " + level)
            if self.repeatable[s] and r.random() < 0.7:
                self.step(s, "SELECT 1 FROM log WHERE false")
            return None
        return self.change(s)

    def finish(self, s):
        r = self.r
        x = r.random()
        if self.player.serializable[s]:
            self.step(s, "SET CONSTRAINTS ALL IMMEDIATE")
            # it may have failed, or wait
            if not self.player.may_step(s) or self.player.status(s) == IDLE:
                return None
        if x < 0.25:
            return self.end(s, "ROLLBACK")
        if x < 0.35 and len(self.gids) < 1:
            gid = "p%d@SIDE@" % self.number()
            self.step(s, "PREPARE TRANSACTION '%s'" % gid)
            outcome = self.player.outcomes.get(s)
            if outcome is None or outcome.code is None:
                self.gids.append(gid)
            self.depth[s] = 0
            return None
        return self.end(s, "COMMIT")

    def end(self, s, sql):
        self.depth[s] = 0
        self.cursors[s] = []
        self.repeatable[s] = False
        return self.step(s, sql)

    def rollback_to(self, s):
        self.depth[s] = self.r.randrange(1, self.depth[s] + 1)
        self.cursors[s] = []
        return self.step(s, "ROLLBACK TO s%d" % self.depth[s])

    # ---- statements

    def read_wide(self, s):
        r = self.r
        return self.step(s, r.choice([
            "SELECT amount FROM t WHERE amount = " + self.amount(),
            "SELECT id, amount FROM t WHERE amount > " + self.amount(),
            "SELECT amount, k FROM t WHERE amount = %s AND k < %d" % (
                self.amount(), r.randrange(8)),
            "SELECT k, v FROM t WHERE u > 20 AND k = %d" % r.randrange(8),
            "SELECT count(*) FROM t WHERE u > 20 AND k >= 0",
            "SELECT k, u, amount FROM t WHERE k = %d" % r.randrange(8),
            "SELECT id, v FROM t WHERE u %% 3 = %d AND v > %d" % (
                r.randrange(3), r.randrange(9)),
            "SELECT u %% 3, count(*) FROM t WHERE u %% 3 = %d GROUP BY 1" %
            r.randrange(3)]))

    def read(self, s):
        r = self.r
        if self.keyed and r.random() < 0.3:
            return self.read_wide(s)
        choice = r.randrange(10)
        if self.player.serializable[s]:
            choice = r.choice([6, 7, 8, 9, 6, 7, 0])
        table = r.choice(["t", "t", "t", "c", "d"])
        if choice <= 1:		# a sequential scan
            return self.step(s, "SELECT * FROM (SELECT * FROM %s OFFSET 0) q "
                             "ORDER BY q.id" % table, True)
        if choice == 2:
            return self.step(s, "SELECT * FROM %s WHERE id > 0 ORDER BY id"
                             % table, True)
        if choice == 3:
            return self.step(s, "SELECT * FROM t WHERE k >= 0 ORDER BY id", True)
        if choice == 4:
            return self.step(s, r.choice([
                "SELECT what FROM log", "SELECT * FROM p", "SELECT * FROM p",
                "SELECT t.id, t.v, c.id, c.w FROM c JOIN t ON t.id" + same("c.pid"),
                "SELECT * FROM c WHERE pid > 0",
                "SELECT * FROM d WHERE q >= 0"]))
        if choice == 5:
            return self.step(s, "SELECT k, count(*), sum(v), sum(length(s)), "
                             "sum(length(x)) FROM t GROUP BY k")
        if choice == 6:
            return self.step(s, "SELECT * FROM t WHERE id = %d" % self.id())
        if choice == 7:
            return self.step(s, r.choice([
                "SELECT id FROM t WHERE id %s" % self.span(),
                "SELECT k, id FROM t WHERE k = %d" % r.randrange(8),
                "SELECT id, v FROM t WHERE v %% 5 = %d" % r.randrange(5),
                "SELECT id, k FROM t WHERE u = %d" % self.id(),
                "SELECT count(*) FROM t WHERE s = repeat('a', 5)",
                "SELECT id, v FROM t WHERE k = %d OR id = %d" % (
                    r.randrange(8), self.id())]))
        if choice == 8:
            return self.step(s, "SELECT id, v, length(x), md5(x) FROM t "
                             "WHERE id %s" % self.span())
        return self.step(s, "SELECT * FROM c WHERE pid = %d" % self.id())

    def change(self, s):
        r = self.r
        intrans = self.player.status(s) == INTRANS
        kind = r.choice(
            ["update"] * 6 + ["insert"] * 3 + ["delete"] * self.deletes + ["conflict"] * 3
            + ["lock"] * 4 + ["child"] * 3 + ["unique"] * 2 + ["merge"]
            + ["block"] + ["part"] * 2 + ["cursor"] * 3 + ["many"] + ["ddl"] + ["mixed"] * 2)
        if kind == "cursor" and not intrans:
            kind = "update"
        return getattr(self, kind)(s)

    def update(self, s):
        r = self.r
        sets = r.choice([
            "v = v + 1", "v = v + 1", "v = %d" % r.randrange(100),
            "s = " + self.text(), "s = %s, v = v + 1" % self.text(),
            "x = " + self.long_text(), "k = %d" % r.randrange(8),
            "u = %d" % r.randrange(60), "u = NULL, v = v + 1",
            "u = u + 1", "id = %d" % self.id(), "id = id + 1",
            "id = %d, v = v + 1" % r.randrange(1, 60), "v = v", "s = s, x = x"])
        if self.keyed and r.random() < 0.5:
            sets = r.choice([
                "k = %d" % r.randrange(8), "k = %d" % r.randrange(8),
                "k = (k + 1) % 8", "k = 7 - k, v = v + 1", "v = v + 1",
                "v = %d, k = %d" % (r.randrange(9), r.randrange(8)),
                "s = 's%d', k = %d" % (r.randrange(5), r.randrange(8)),
                "amount = " + self.amount(), "amount = %s, k = %d" % (
                    self.amount(), r.randrange(8)), "amount = amount + " + self.amount()])
        where = r.choice(["id = %d" % self.id(), "id = %d" % self.id(),
                          "id " + self.span(),
                          "id = %d AND v %% 2 = 0" % self.id(),
                          "id %s AND v > %d" % (self.span(), r.randrange(5))])
        tail = r.choice(["", "", " RETURNING id, k, u, v, s, length(x), g"])
        self.step(s, "UPDATE t SET %s WHERE %s%s" % (sets, where, tail))

    def amount(self):
        """Few values, each with several images."""
        return self.r.choice(["0", "0.0", "1", "1.0", "1.00", "-1", "-1.0", "2.50"])

    def insert(self, s):
        r = self.r
        n = r.choice([1, 1, 1, 3, 6])
        a = self.id()
        self.step(s, "INSERT INTO t (id, k, u, v, s, x) SELECT g, g %% 8, %s, %d, "
                  "%s, %s FROM generate_series(%d, %d) g%s" % (
                      r.choice(["g", "NULL", "g + 50", "NULL"]), r.randrange(9),
                      self.text().replace("s || ", "").replace("left(s, 3)", "'l'")
                      .replace("left('q', 700)", "'q'").replace("left(s", "left('s'"),
                      self.long_text().replace("x || 'e'", "'e'"), a, a + n - 1,
                      r.choice(["", " RETURNING *"])))

    def delete(self, s):
        r = self.r
        where = r.choice(["id = %d" % self.id(), "id = %d" % self.id(),
                          "id " + self.span(),
                          "id %s AND v %% 3 <> 1" % self.span()])
        self.step(s, "DELETE FROM %s WHERE %s%s" % (
            "t", where, r.choice(["", " RETURNING id, v, s, length(x)"])))

    def conflict(self, s):
        r = self.r
        a = self.id()
        n = r.choice([0, 0, 0, 2, 5])
        tail = r.choice([
            "ON CONFLICT DO NOTHING", "ON CONFLICT (id) DO NOTHING",
            "ON CONFLICT (id) DO UPDATE SET v = t.v + excluded.v",
            "ON CONFLICT (id) DO UPDATE SET s = excluded.s, u = NULL",
            "ON CONFLICT (id) DO UPDATE SET v = t.v + 1 WHERE t.v % 2 = 0",
            "ON CONFLICT (id) DO UPDATE SET k = excluded.k, x = 'conflict'"])
        self.step(s, "INSERT INTO t (id, k, u, v, s) SELECT g, %d, %s, %d, "
                  "repeat('c', %d) FROM generate_series(%d, %d) g %s %s" % (
                      r.randrange(8), r.choice(["g", "NULL"]), r.randrange(6),
                      r.choice([2, 60, 300]), a, a + n, tail,
                      r.choice(["", "RETURNING id, v"])))

    def lock(self, s):
        r = self.r
        table = r.choice(["t", "t", "t", "c"])
        self.step(s, "SELECT * FROM %s WHERE id %s ORDER BY id %s%s" % (
            table, r.choice([self.span(), "= %d" % self.id()]), r.choice(LOCKS),
            r.choice(["", " NOWAIT", " SKIP LOCKED", " NOWAIT"])), True)

    def child(self, s):
        r = self.r
        self.step(s, r.choice([
            "INSERT INTO c VALUES (%d, %d, %d, 'n')" % (
                1000 + self.number(), self.id(), r.randrange(9)),
            "INSERT INTO c VALUES (%d, %d, 1, 'n') ON CONFLICT (id) DO UPDATE "
            "SET pid = excluded.pid" % (self.id(), self.id()),
            "UPDATE c SET pid = %d WHERE id = %d" % (self.id(), self.id()),
            "UPDATE c SET w = w + 1, s = %s WHERE id %s" % (self.text(), self.span()),
            "DELETE FROM c WHERE id = %d RETURNING *" % self.id(),
            "DELETE FROM c WHERE id = %d" % (1000 + r.randrange(self.counter + 1)),
            "UPDATE c SET id = %d WHERE id = %d" % (self.id(), self.id())]))

    def unique(self, s):
        r = self.r
        self.step(s, r.choice([
            "UPDATE d SET q = q + 1 WHERE id %s" % self.span(),
            "UPDATE d SET q = %d, v = v + 1 WHERE id = %d" % (
                r.randrange(20), self.id() % 15),
            "UPDATE d SET v = v - 2 WHERE id = %d" % (self.id() % 15),
            "INSERT INTO d VALUES (%d, %d, %d)" % (
                100 + self.number(), r.randrange(60), r.randrange(80)),
            "INSERT INTO d VALUES (%d, %d, 1) ON CONFLICT (id) DO UPDATE SET "
            "v = d.v + 1" % (self.id(), r.randrange(60)),
            "DELETE FROM d WHERE id = %d" % (self.id() % 15),
            "SET CONSTRAINTS ALL %s" % r.choice(["IMMEDIATE", "DEFERRED"])]))

    def merge(self, s):
        r = self.r
        a = self.id()
        self.step(s, ("MERGE INTO t USING generate_series(%d, %d) n (i) ON t.id" +
                      same("i") + " WHEN MATCHED AND t.v %% 3 = 0 THEN DELETE "
                      "WHEN MATCHED AND t.v %% 3 = 1 THEN UPDATE SET v = t.v + 1, s = %s "
                      "WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN "
                      "INSERT (id, k, v) VALUES (i, %d, %d)") % (
                      a, a + r.choice([0, 2, 6]),
                      r.choice(["t.s || 'M'", "'m'"]), r.randrange(8),
                      r.randrange(8)))

    def part(self, s):
        """Rows that move between partitions."""
        r = self.r
        a = self.id() % 22
        self.step(s, r.choice([
            "UPDATE p SET k = %d WHERE id = %d RETURNING *" % (r.randrange(8), a),
            "UPDATE p SET k = (k + 3) %% 8, v = v + 1 WHERE id = %d" % a,
            "UPDATE p SET v = v + 1, s = s || 'u' WHERE id = %d" % a,
            "DELETE FROM p WHERE id = %d RETURNING *" % a,
            "INSERT INTO p VALUES (%d, %d, 0, 'i') ON CONFLICT DO NOTHING" % (
                a, r.randrange(8)),
            "INSERT INTO p VALUES (%d, %d, 0, 'c') ON CONFLICT (id, k) DO UPDATE "
            "SET v = p.v + 1" % (a, r.randrange(8)),
            "SELECT * FROM p WHERE id = %d FOR %s" % (
                a, r.choice(["UPDATE", "SHARE NOWAIT", "KEY SHARE SKIP LOCKED"])),
            "MERGE INTO p USING (VALUES (%d)) n (i) ON p.id = i WHEN MATCHED THEN "
            "UPDATE SET k = %d WHEN NOT MATCHED THEN INSERT VALUES (i, 1, 1, 'm')"
            % (a, r.randrange(8)),
            "SELECT * FROM p WHERE id > 0"]))

    def block(self, s):
        """plpgsql with subtransactions."""
        r = self.r
        a = self.id()
        self.step(s, """DO $$ BEGIN FOR i IN %d..%d LOOP
 BEGIN UPDATE t SET v = v + 1, s = %s WHERE id = i;
  IF i %% %d = 0 THEN PERFORM 1 / 0; END IF;
  %s
 EXCEPTION WHEN division_by_zero OR unique_violation THEN
  UPDATE t SET v = v + 2 WHERE id = i; END; END LOOP; END $$""" % (
            a, a + r.choice([2, 6]), self.text(), r.choice([2, 3]),
            r.choice(["", "DELETE FROM c WHERE id = i;",
                      "UPDATE t SET u = 7 WHERE id = i;",
                      "INSERT INTO d VALUES (i, i, i);"])))

    def cursor(self, s):
        r = self.r
        if not self.cursors[s] or (len(self.cursors[s]) < 2 and r.random() < 0.3):
            name = "c%d" % self.number()
            self.cursors[s].append(name)
            scroll, tail = r.choice([("", ""), ("SCROLL ", ""),
                                     ("", " FOR UPDATE"), ("", " FOR UPDATE"),
                                     ("", " FOR NO KEY UPDATE")])
            return self.step(s, "DECLARE %s %sCURSOR FOR SELECT id, k, v, s FROM "
                             "t WHERE id BETWEEN %d AND 60 ORDER BY id%s" % (
                                 name, scroll, self.id(), tail))
        name = r.choice(self.cursors[s])
        x = r.random()
        if x < 0.5:
            return self.step(s, "FETCH %s FROM %s" % (r.choice([1, 1, 2, 5]), name),
                             True)
        if x < 0.75:
            return self.step(s, "UPDATE t SET %s WHERE CURRENT OF %s" % (
                r.choice(["v = v + 1", "s = " + self.text(), "k = 5"]), name))
        if x < 0.85:
            return self.step(s, "DELETE FROM t WHERE CURRENT OF " + name)
        if x < 0.9:
            return self.step(s, "FETCH BACKWARD 2 FROM " + name, True)
        self.cursors[s].remove(name)
        return self.step(s, "CLOSE " + name)

    def many(self, s):
        """All rows, in any order."""
        if not self.others_idle(s):
            return self.update(s)
        return self.step(s, self.r.choice([
            "UPDATE t SET v = v + 1 WHERE v % 17 <> 8", "UPDATE t SET s = s || '.'",
            "UPDATE c SET w = w + 1", "UPDATE t SET v = v + c.w % 3 FROM c "
            "WHERE c.pid = t.id AND c.id % 5 = 0 AND c.pid < 20",
            "DELETE FROM t USING d WHERE t.id = d.id AND d.v % 4 = 3",
            "UPDATE t SET k = (k + 1) % 8 WHERE u IS NULL",
            "DELETE FROM t WHERE k = 6", "UPDATE t SET x = left(x, 50)",
            "INSERT INTO t (id, k, v, s) SELECT g, g % 8, 1, repeat('i', g % 50) "
            "FROM generate_series(50, 300) g ON CONFLICT DO NOTHING",
            "DELETE FROM t WHERE id > 45"]))

    def mixed(self, s):
        r = self.r
        a, b = self.id(), self.id()
        return self.step(s, r.choice([
            "WITH gone AS (DELETE FROM t WHERE id = %d RETURNING *) INSERT INTO t "
            "(id, k, v, s) SELECT %d, k, v, s FROM gone RETURNING id, v" % (a, b),
            "WITH l AS (SELECT id FROM t WHERE id %s ORDER BY id FOR UPDATE) "
            "UPDATE t SET v = v + 1 FROM l WHERE t.id = l.id AND t.id = %d "
            "RETURNING t.id, v" % (self.span(), a),
            "UPDATE t SET v = t.v + o.v FROM t o WHERE o.id = %d AND t.id = %d "
            "RETURNING t.id, t.v, o.v" % (b, a),
            "UPDATE t SET v = (SELECT count(*) FROM t o WHERE o.k = t.k) "
            "WHERE id = %d RETURNING v" % a,
            ("DELETE FROM t USING c WHERE c.id = %d AND t.id" + same("c.pid") +
             " RETURNING t.id, c.w") % a,
            ("UPDATE t SET s = c.s || 'j' FROM c WHERE c.id = %d AND t.id" +
             same("c.pid")) % a,
            ("SELECT t.id, c.id, t.v, c.w FROM c JOIN t ON t.id" + same("c.pid") +
             " WHERE c.id = %d FOR UPDATE OF t") % a,
            "UPDATE t SET v = v + 1 WHERE id = %d AND EXISTS (SELECT FROM c "
            "WHERE c.pid = t.id)" % a,
            "INSERT INTO t (id, k, v) VALUES (%d, 1, 0), (%d, 2, 0)" % (a, b),
            "INSERT INTO t (id, k, u, v) SELECT id + 20, k, NULL, v FROM t WHERE "
            "id %s" % self.span()]))

    # ---- keeping house

    def ddl(self, s):
        """Commands that lock the table: at once or never."""
        r = self.r
        n = self.number()
        x = r.random()
        if x < 0.25 and len(self.columns) < 4:
            name = "a%d" % n
            self.columns.append(name)
            sql = "ALTER TABLE t ADD COLUMN %s %s" % (name, r.choice([
                "int", "int DEFAULT %d" % n, "text DEFAULT repeat('d', 30)",
                "bigint NOT NULL DEFAULT 7"]))
        elif x < 0.35 and self.columns:
            sql = "ALTER TABLE t DROP COLUMN IF EXISTS " + self.columns.pop()
        else:
            sql = r.choice([
                "CREATE INDEX i%d ON t (v, id)" % n, "REINDEX TABLE t",
                "REINDEX INDEX t_k", "DROP INDEX IF EXISTS t_e",
                "CREATE UNIQUE INDEX i%d ON c (id, w)" % n,
                "CREATE INDEX i%d ON t (k) WHERE v > 3" % n,
                "ALTER TABLE c DROP CONSTRAINT IF EXISTS cc, ADD CONSTRAINT cc "
                "CHECK (w > -100)", "LOCK TABLE t IN SHARE MODE NOWAIT",
                "ALTER TABLE t ALTER s SET STORAGE MAIN"])
            if self.vacuum_full and r.random() < 0.2:
                sql = r.choice(["ALTER TABLE c ALTER w TYPE bigint",
                                "ALTER TABLE c ALTER w TYPE int"])
        sql = "SET lock_timeout = '30ms'; %s; SET lock_timeout = 0" % sql
        self.step(s, sql)

    def keep(self, s):
        r = self.r
        table = r.choice(["t", "t", "c", "d", "log"])
        idle = self.others_idle(s)
        # on heap, freezing waits for the pins of cursors
        choices = ["VACUUM (TRUNCATE off) %s", "VACUUM (TRUNCATE off) p",
                   "VACUUM (INDEX_CLEANUP off, TRUNCATE off) %s", "ANALYZE %s"]
        if self.vacuum_full:
            # under the snapshots of others, if none of them has it locked
            choices += ["VACUUM FULL %s", "CLUSTER t USING t_k"]
        if idle:
            choices += ["VACUUM %s", "VACUUM (FREEZE) %s", "VACUUM (ANALYZE) %s",
                        "DROP INDEX CONCURRENTLY IF EXISTS t_e",
                        "REINDEX TABLE CONCURRENTLY %s",
                        "CREATE INDEX CONCURRENTLY IF NOT EXISTS t_e ON t ((v %% 5), id)"]
        sql = r.choice(choices)
        self.step(s, sql % table if "%s" in sql else sql.replace("%%", "%"))

    def final_reads(self):
        for table in ("t", "c", "d"):
            self.step(KEEPER, "SELECT * FROM (SELECT * FROM %s OFFSET 0) q "
                      "ORDER BY q.id" % table, True)
            self.step(KEEPER, "SELECT * FROM %s WHERE id > 0 ORDER BY id" % table,
                      True)
        self.step(KEEPER, "SELECT what FROM log")
        self.step(KEEPER, "SELECT * FROM p")


def generator_for(seed, player, vacuum_full):
    return Generator(random.Random(seed * 7919 + 1), player, vacuum_full)


def keyed_generator_for(seed, player, vacuum_full):
    generator = generator_for(seed, player, vacuum_full)
    generator.keyed = True
    return generator
