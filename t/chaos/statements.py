"""Statements for differential histories that the generator of t/differential
lacks: whatever can roll back beside rows, locks of tables at any moment, rows
by places that cannot be.

They come as stories: sequences of one session, between whose steps the others
go on.  A story that fails is rolled back.
"""
import os
import random
import sys

from psycopg2 import extensions

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "differential"))
import generator as base  # noqa: E402

IDLE = extensions.TRANSACTION_STATUS_IDLE
INTRANS = extensions.TRANSACTION_STATUS_INTRANS
INERROR = extensions.TRANSACTION_STATUS_INERROR
MODES = ["ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE",
         "SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"]
LEVELS = ["READ COMMITTED", "READ COMMITTED", "REPEATABLE READ"]
PAUSE = object()		# the others' turn
INDEXES = ["t_k", "t_u", "t_e", "t_i", "t_h", "c_pid", "t_x"]


def impatient(sql):
    """At once or never: who else waits then isn't a matter of time."""
    return "SET LOCAL lock_timeout = '30ms'; %s; SET LOCAL lock_timeout = 0" % sql


def schema(r, access_method):
    """The differential test's schema, and triggers of this test's own."""
    keyed = ChaosGenerator.keyed
    out = (base.keyed_schema if keyed else base.schema)(r, access_method)
    extra = """
CREATE FUNCTION t_place() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF (OLD.ctid::text::point)[1] > 2000 OR TG_OP = 'UPDATE' AND
		(NEW.ctid::text::point)[1] > 2000 AND TG_WHEN = 'AFTER' THEN
		INSERT INTO log VALUES ('no such place: ' || TG_NAME || OLD.ctid);
	END IF;
	RETURN NULL;
END $$;
CREATE FUNCTION lock_table() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'LOCK TABLE ' || TG_TABLE_NAME || ' IN ' || TG_ARGV[0] || ' MODE';
	RETURN NEW;
END $$"""
    out.insert(-1, extra)
    if r.random() < 0.5 and "t_place" not in ChaosGenerator.without:
        out.insert(-1, "CREATE TRIGGER t_place AFTER UPDATE OR DELETE ON t FOR "
                   "EACH ROW EXECUTE FUNCTION t_place()")
    if r.random() < 0.5:
        out.insert(-1, "CREATE TRIGGER t_lock BEFORE INSERT ON %s FOR EACH ROW "
                   "EXECUTE FUNCTION lock_table('%s')" % (
                       r.choice(["t", "d", "d"]), r.choice(MODES[3:7])))
    return out


class ChaosGenerator(base.Generator):
    without = ()		# names of what isn't done: places, story_lock, ..

    def __init__(self, r, player, vacuum_full):
        super().__init__(r, player, vacuum_full)
        self.stories = {}
        # with calm moments old versions go, without there are many
        self.calm = r.choice([0, 0.02, 0.05])
        self.rate = r.choice([0.05, 0.1, 0.2])
        self.kinds = r.sample([
            self.story_index, self.story_index, self.story_lock, self.story_lock,
            self.story_new_table, self.story_alter, self.story_truncate,
            self.story_partition, self.story_trigger, self.story_move,
            self.story_prepared, self.story_delete_insert], 7)
        self.kinds = [k for k in self.kinds if k.__name__ not in self.without]

    # ---- stories

    def play(self):
        r = self.r
        if r.random() < self.calm:
            return self.calm_down()
        told = [s for s in self.stories if self.player.may_step(s)]
        if told and r.random() < 0.4:
            return self.go_on(r.choice(told))
        if len(self.stories) < 2 and self.kinds and r.random() < self.rate:
            able = [s for s in range(base.READER) if s not in self.stories
                    and self.player.may_step(s) and self.player.status(s) == IDLE]
            if able:
                s = r.choice(able)
                self.depth[s] = 0
                self.cursors[s] = []
                self.stories[s] = r.choice(self.kinds)(s)
                return self.go_on(s)
        if r.random() < 0.03 and "places" not in self.without:
            return self.places()
        # one whose story isn't over does nothing else
        keep = self.player.may_step
        self.player.may_step = lambda s: s not in self.stories and keep(s)
        try:
            if not any(self.player.may_step(s) for s in range(base.NSESSIONS)):
                return None
            return super().play()
        finally:
            del self.player.may_step

    def go_on(self, s):
        story = self.stories[s]
        if self.player.status(s) == INERROR:
            story[:] = ["ROLLBACK"]
        if not story:
            del self.stories[s]
            return
        step = story.pop(0)
        if step is PAUSE:
            return
        if callable(step):
            step(s)
        else:
            self.step(s, step, "ORDER BY" in step)

    def changes(self, s, low, high):
        """A few random changes, chosen when it is their turn."""
        kinds = [self.update, self.insert, self.delete, self.conflict, self.lock,
                 self.unique, self.child, self.read]
        return [self.r.choice(kinds) for _ in range(self.r.randint(low, high))]

    def begin(self):
        return "BEGIN ISOLATION LEVEL " + self.r.choice(LEVELS)

    def inside(self, s, before, after=()):
        """before; a few changes; rolled back more often than not."""
        r = self.r
        savepoint = r.random() < 0.4
        out = [self.begin()]
        if savepoint:
            out += self.changes(s, 0, 1) + ["SAVEPOINT w"]
        out += [impatient(x) for x in before] + self.changes(s, 1, 5) + list(after)
        if savepoint and r.random() < 0.7:
            out += ["ROLLBACK TO w"] + self.changes(s, 0, 3)
            out += [r.choice(["COMMIT", "ROLLBACK"])]
        else:
            out += [r.choice(["ROLLBACK", "ROLLBACK", "COMMIT"])]
        return out + self.changes(s, 0, 2) + [self.by_index(), self.by_index()]

    def by_index(self):
        r = self.r
        return r.choice([
            "SELECT id, k FROM t WHERE k = %d ORDER BY id" % r.randrange(8),
            "SELECT id, k FROM t WHERE k BETWEEN 0 AND 9 ORDER BY id",
            "SELECT id, u FROM t WHERE u > 0 AND k > 3 ORDER BY id",
            "SELECT id, pid FROM c WHERE pid > 0 ORDER BY id",
            "SELECT id, q FROM d WHERE q >= 0 ORDER BY id",
            "SELECT * FROM t WHERE id > 0 ORDER BY id"])

    def story_index(self, s):
        r = self.r
        name = r.choice(INDEXES)
        drop = r.choice([
            "DROP INDEX IF EXISTS " + name, "DROP INDEX IF EXISTS t_k",
            "DROP INDEX IF EXISTS t_k, t_u, t_e, t_i, t_h, t_x",
            "ALTER TABLE d DROP CONSTRAINT IF EXISTS d_q",
            "ALTER TABLE t ADD CONSTRAINT t_x UNIQUE (id, k)",
            "CREATE INDEX t_k ON t (k, id)", "CREATE INDEX t_x ON t (s, id)",
            "CREATE UNIQUE INDEX t_u ON t (u) WHERE true",
            "CREATE INDEX c_pid ON c (pid, id)",
            "ALTER INDEX IF EXISTS t_k SET (fillfactor = 60)",
            "ALTER INDEX IF EXISTS t_k RENAME TO t_x",
            "REINDEX TABLE t", "ALTER TABLE d ADD CONSTRAINT d_q UNIQUE (q) "
            "DEFERRABLE INITIALLY DEFERRED"])
        before = []
        if drop.startswith("DROP") and r.random() < 0.6:
            before = ["DELETE FROM t WHERE id BETWEEN %d AND %d" % (
                self.id(), base.ROWS + 10), PAUSE, PAUSE]
        return before + self.inside(s, [drop])

    def story_lock(self, s):
        """Locked after the snapshot was taken, then rows met that changed."""
        r = self.r
        table = r.choice(["t", "d", "d"])
        key = self.id() % 9 + 1
        meet = [
            "INSERT INTO %s (id, v) VALUES (%d, 3) ON CONFLICT (id) DO UPDATE SET "
            "v = %s.v + 1 RETURNING id, v" % (table, key, table),
            "INSERT INTO %s (id, v) VALUES (%d, 3), (%d, 4) ON CONFLICT (id) DO "
            "UPDATE SET v = excluded.v" % (table, key, key),
            "INSERT INTO %s (id, v) VALUES (%d, 3) ON CONFLICT DO NOTHING" % (
                table, key),
            "UPDATE %s SET v = v + 1 WHERE id = %d RETURNING id, v" % (table, key),
            "DELETE FROM %s WHERE id = %d RETURNING id, v" % (table, key),
            "SELECT * FROM %s WHERE id = %d FOR UPDATE" % (table, key),
            "SELECT * FROM %s WHERE id = %d" % (table, key)]
        if "twice" in self.without:
            meet = [x for x in meet if "excluded" not in x]
        return [self.begin(), "SELECT 1 FROM log WHERE false", PAUSE,
                lambda _: self.elsewhere(s, table, key), PAUSE,
                "LOCK TABLE %s IN %s MODE NOWAIT" % (table, r.choice(MODES))] + \
            r.sample(meet, r.randint(1, 4)) + self.changes(s, 0, 2) + \
            [r.choice(["COMMIT", "ROLLBACK"])]

    def elsewhere(self, s, table, key):
        """Another session changes the row, and mostly commits."""
        able = [x for x in range(base.READER) if x != s and x not in self.stories
                and self.player.may_step(x) and self.player.status(x) == IDLE]
        if not able:
            return
        x = self.r.choice(able)
        self.depth[x] = 0
        if self.r.random() < 0.4:
            self.step(x, "BEGIN")
            self.stories[x] = [PAUSE, PAUSE, PAUSE, "COMMIT"]
        self.step(x, self.r.choice([
            "UPDATE %s SET v = v + 7 WHERE id = %d",
            "UPDATE %s SET v = v + 7 WHERE id = %d",
            "DELETE FROM %s WHERE id = %d"]) % (table, key))

    def story_new_table(self, s):
        r = self.r
        name = "n%d" % self.number()
        meet = ["INSERT INTO %s VALUES (1, 10), (1, 20) ON CONFLICT (id) DO UPDATE "
                "SET v = excluded.v" % name,
                "INSERT INTO %s SELECT g, g FROM generate_series(2, %d) g" % (
                    name, r.choice([5, 300])),
                "UPDATE %s SET v = v + 1" % name, "DELETE FROM %s WHERE id %% 3 = 0"
                % name, "CREATE INDEX ON %s (v)" % name, "TRUNCATE " + name,
                "ALTER TABLE %s ADD w text DEFAULT 'w'" % name,
                "ALTER TABLE %s ALTER v TYPE bigint" % name, "SAVEPOINT a",
                "SELECT * FROM %s ORDER BY id" % name]
        if "twice" in self.without:
            meet = [x for x in meet if "excluded" not in x]
        out = ["BEGIN", "CREATE TABLE %s (id int PRIMARY KEY, v int)" % name,
               "INSERT INTO %s VALUES (1, 1)" % name]
        out += r.sample(meet, r.randint(2, 7))
        end = r.choice(["COMMIT", "ROLLBACK"])
        out += ["SELECT * FROM %s ORDER BY id" % name, end]
        if end == "COMMIT":
            out += self.changes(s, 0, 2)
            out += ["SELECT * FROM %s ORDER BY id" % name, "BEGIN",
                    "DROP TABLE " + name, "ROLLBACK",
                    "SELECT * FROM %s ORDER BY id" % name, "DROP TABLE " + name]
        return out

    def story_alter(self, s):
        r = self.r
        n = self.number()
        return self.inside(s, [r.choice([
            "ALTER TABLE t ADD COLUMN b%d int DEFAULT %d" % (n, n),
            "ALTER TABLE t ADD COLUMN b%d text" % n,
            "ALTER TABLE c DROP COLUMN w",
            "ALTER TABLE t DROP COLUMN g", "ALTER TABLE t REPLICA IDENTITY FULL",
            "ALTER TABLE c DROP CONSTRAINT c_pid_fkey",
            "ALTER TABLE c ADD CONSTRAINT c_w CHECK (w > -1000)",
            "ALTER TABLE t SET (fillfactor = %d)" % r.choice([20, 60, 100]),
            "ALTER TABLE d ALTER v SET NOT NULL",
            "ALTER TABLE d RENAME v TO vv", "ALTER TABLE t ALTER s SET STORAGE PLAIN",
            "CREATE STATISTICS st%d ON k, v FROM t" % n, "ANALYZE t",
            "CREATE EXTENSION IF NOT EXISTS zheap_am", "CREATE SCHEMA x%d" % n])])

    def story_truncate(self, s):
        if not self.others_idle(s):
            return []
        return self.inside(s, [self.r.choice(["TRUNCATE d", "TRUNCATE c",
                                              "TRUNCATE t CASCADE"])])

    def story_partition(self, s):
        r = self.r
        part = r.choice(["p0", "p1"])
        return self.inside(s, [
            "ALTER TABLE p DETACH PARTITION " + part,
            "UPDATE %s SET v = v + 1" % part, "DELETE FROM %s WHERE id %% 2 = 0" % part,
            "INSERT INTO %s VALUES (%d, %s, 1, 'd')" % (
                part, 3000 + self.number(), "1" if part == "p0" else "4")])

    def story_trigger(self, s):
        r = self.r
        n = self.number()
        return self.inside(s, [r.choice([
            "CREATE TRIGGER z%d AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION "
            "t_after()" % n, "ALTER TABLE t DISABLE TRIGGER USER",
            "DROP TRIGGER IF EXISTS t_after ON t", "DROP TRIGGER IF EXISTS t_before ON t",
            "CREATE TRIGGER z%d BEFORE UPDATE ON d FOR EACH ROW EXECUTE FUNCTION "
            "lock_table('%s')" % (n, r.choice(MODES[3:7])),
            "ALTER TABLE t ENABLE TRIGGER USER"])])

    def story_move(self, s):
        """Rewritten, with nobody who has an older snapshot: at one go."""
        if not self.others_idle(s):
            return []
        r = self.r
        table = r.choice(["c", "d", "log", "t"])
        what = r.choice([
            "ALTER TABLE %s SET ACCESS METHOD heap" % table,
            "ALTER TABLE %s SET ACCESS METHOD heap" % table,
            "ALTER TABLE %s SET TABLESPACE other" % table,
            "ALTER TABLE %s SET TABLESPACE pg_default" % table,
            "ALTER TABLE log SET UNLOGGED", "ALTER TABLE log SET LOGGED"])
        rows = ["DELETE FROM c WHERE id % 5 = 1", "UPDATE t SET v = v + 1 WHERE id = 3",
                "UPDATE c SET w = w + 1 WHERE id < 6", "UPDATE d SET v = v + 1",
                "INSERT INTO log VALUES ('moved')", "SAVEPOINT a",
                "UPDATE t SET k = k + 1 WHERE id < 9"]
        out = "BEGIN; %s; %s; %s; %s" % (r.choice(rows), what, r.choice(rows),
                                         r.choice(["COMMIT", "ROLLBACK"]))
        if "METHOD" in what:
            out += "; " + r.choice(rows[:5])
            out += "; DO $$ BEGIN IF current_database() = 'da' THEN ALTER TABLE " \
                "%s SET ACCESS METHOD zheap; END IF; END $$" % table
        return [out, self.by_index()]

    def story_prepared(self, s):
        """Prepared, ended by another one while others write behind it."""
        r = self.r
        if self.gids:
            return []
        gid = "q%d@SIDE@" % self.number()

        def done(_):
            # another session ends it, now or later
            if self.player.outcomes[s].code is None:
                self.gids.append(gid)
        out = [self.begin()] + self.changes(s, 1, 4)
        if r.random() < 0.3:
            out += ["SAVEPOINT w"] + self.changes(s, 1, 2)
            out += [r.choice(["RELEASE w", "ROLLBACK TO w"])]

        def end(_):
            if gid in self.gids:
                self.gids.remove(gid)
                self.step(s, "%s PREPARED '%s'" % (
                    r.choice(["ROLLBACK", "ROLLBACK", "COMMIT"]), gid))

        def others(_):
            able = [x for x in range(base.READER) if x != s and x not in self.stories
                    and self.player.may_step(x) and self.player.status(x) == IDLE]
            if able:
                x = r.choice(able)
                self.depth[x] = 0
                self.stories[x] = ["BEGIN"] + self.changes(x, 2, 6) + \
                    [PAUSE, PAUSE, r.choice(["COMMIT", "ROLLBACK"])]
        return out + ["PREPARE TRANSACTION '%s'" % gid, done, others, PAUSE, PAUSE,
                      end, PAUSE, self.by_index()]

    def story_delete_insert(self, s):
        """Rows that go and come again, so that their places do."""
        r = self.r
        a = self.id()
        b = a + r.choice([3, 10, 30])
        return ["DELETE FROM t WHERE id BETWEEN %d AND %d AND id NOT IN "
                "(SELECT pid FROM c WHERE pid IS NOT NULL)" % (a, b), PAUSE, PAUSE,
                "INSERT INTO t (id, k, u, v, s) SELECT g, g %% 7, NULL, 0, 'again' "
                "FROM generate_series(%d, %d) g ON CONFLICT DO NOTHING" % (a, b),
                self.by_index()]

    # ---- others

    def step(self, s, sql, ordered=False):
        # a SERIALIZABLE one may not fail for a constraint at its very end
        if sql == "COMMIT" and self.player.serializable[s] and \
                self.player.status(s) == INTRANS and self.player.may_step(s):
            super().step(s, "SET CONSTRAINTS ALL IMMEDIATE")
            if not self.player.may_step(s):
                return
        super().step(s, sql, ordered)

    def calm_down(self):
        """Nobody is in a transaction: horizons pass."""
        self.stories.clear()
        for s in range(base.NSESSIONS):
            if self.player.may_step(s) and self.player.status(s) != IDLE:
                self.end(s, self.r.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
        if self.player.may_step(base.KEEPER):
            self.step(base.KEEPER, "SELECT pg_sleep(%s)" % self.r.choice([0.02, 0.1]))

    def places(self):
        """Rows by places that no page of heap has."""
        r = self.r
        able = [s for s in range(base.READER) if s not in self.stories
                and self.player.may_step(s) and self.player.status(s) != INERROR]
        if not able:
            return
        tid = "'(%d,%d)'" % (r.randrange(2), (r.choice([8192, 16384, 32768, 24576])
                                              + r.randrange(1, 40)))
        self.step(r.choice(able), r.choice([
            "SELECT id, k FROM t WHERE ctid = " + tid,
            "SELECT id FROM t WHERE ctid = ANY (ARRAY[%s]::tid[])" % tid,
            "UPDATE t SET v = v + 1 WHERE ctid = " + tid,
            "DELETE FROM d WHERE ctid = " + tid,
            "SELECT id FROM c WHERE ctid = %s FOR UPDATE" % tid]))


def generator_for(seed, player, vacuum_full):
    return ChaosGenerator(random.Random(seed * 7919 + 1), player, vacuum_full)
