"""Databases that are copied while they are used (torture.py --copies).

CREATE DATABASE writes pages of tables past the access method, by two strategies,
at each wal_level.  The source is changed, copied, and both are changed again; after
a kill each copy that was acknowledged is there, and each that is there is whole.
"""
import psycopg2

from rules import Lost, outside


class Copies:
    def __init__(self, torture, count):
        self.torture = torture
        self.count = count
        self.names = set()	# acknowledged
        self.leaving = set()	# being dropped
        self.number = self.checked = 0

    def __str__(self):
        return ", %d copies" % len(self.names) if self.count else ""

    def create(self, conn, schema):
        if not self.count:
            return
        outside(conn, "CREATE DATABASE source TEMPLATE template0")
        with psycopg2.connect(self.torture.node.dsn("source")) as source:
            source.cursor().execute(schema)
        source.close()

    def works(self):
        return [self.copy] if self.count else []

    def change(self, database, r):
        conn = psycopg2.connect(self.torture.node.dsn(database))
        try:
            for _ in range(r.randrange(1, 6)):
                cur = conn.cursor()
                for _ in range(r.randrange(1, 8)):
                    if r.random() < 0.6:
                        self.torture.op(cur, r)
                        continue
                    # large values, in place: what their old bytes lend isn't logged
                    a = r.randrange(1, 240)
                    cur.execute(
                        "UPDATE account SET big = overlay(coalesce(big, repeat('v', "
                        "9000)) placing %s from %s) WHERE id BETWEEN %s AND %s",
                        (chr(r.randrange(97, 123)) * 9, r.randrange(1, 2000), a,
                         a + r.choice([0, 20, 240])))
                conn.rollback() if r.random() < 0.2 else conn.commit()
        finally:
            conn.close()

    def copy(self, conn, r):
        if len(self.names) >= self.count:
            name = r.choice(sorted(self.names))
            self.names.discard(name)
            self.leaving.add(name)
            outside(conn, "DROP DATABASE %s" % name)
            self.leaving.discard(name)
            return
        self.change("source", r)
        self.number += 1
        name = "copy_%d" % self.number
        outside(conn, "CREATE DATABASE %s TEMPLATE %s STRATEGY %s" % (
            name, r.choice(["source"] + sorted(self.names)),
            r.choice(["wal_log", "wal_log", "file_copy"])))
        self.names.add(name)
        for database in r.sample([name, "source"], r.choice([1, 2])):
            self.change(database, r)

    def check(self, conn):
        if not self.count:
            return
        cur = conn.cursor()
        cur.execute("SELECT datname FROM pg_database "
                    "WHERE datname LIKE 'copy%'")
        there = {name for name, in cur.fetchall()}
        conn.rollback()
        if self.names - there:
            raise Lost("copies are gone: %s" % sorted(self.names - there))
        for name in self.leaving:
            outside(conn, "DROP DATABASE IF EXISTS %s" % name)
        self.names = there - self.leaving
        self.leaving.clear()
        for name in sorted(self.names) + ["source"]:
            with psycopg2.connect(self.torture.node.dsn(name)) as copy:
                self.torture.look(copy.cursor(), name)
            copy.close()
            self.checked += 1

    def end(self, cur):
        if not self.count:
            return
        for name in self.names | {"source"}:
            cur.execute("DROP DATABASE %s" % name)
