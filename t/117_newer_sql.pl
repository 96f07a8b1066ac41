# What newer major versions of SQL offer, on a zheap table and on its heap twin:
# the same statements in two schemas give the same answers, the same errors and
# the same rows.  Parts that this server is too old for are left out.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('sql', conf => "autovacuum = off\n");
$node->start;
my ($version) = $node->pg_version =~ /^(\d+)/;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE ROLE keeper;
CREATE SCHEMA z; CREATE SCHEMA h;
GRANT USAGE ON SCHEMA z, h TO keeper;});
my $gist = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'btree_gist'});
$node->safe_psql('postgres', 'CREATE EXTENSION btree_gist') if $gist;
my %am = (z => 'zheap', h => 'heap');

# The same script in both schemas; AM stands for the access method.
sub twins
{
	my ($since, $what, $sql) = @_;
	my %answer;

	return if $version < $since;
	for my $t ('z', 'h')
	{
		(my $own = $sql) =~ s/\bAM\b/$am{$t}/g;
		my ($rc, $out, $err) = $node->psql('postgres',
			"SET search_path = $t, public; SET default_table_access_method = $am{$t};\n$own",
			on_error_stop => 0);
		$err =~ s/^psql:<stdin>:\d+: //mg;
		$answer{$t} = "$out\n$err";
		$answer{$t} =~ s/\b$t\./S./g;
	}
	isnt($answer{h}, "\n", "$what: heap has an answer");
	is($answer{z}, $answer{h}, $what);
	return;
}

# --- MERGE
twins(15, 'MERGE', q{
CREATE TABLE m (id int PRIMARY KEY, v int, t text);
INSERT INTO m SELECT g, g * 10, 'old' FROM generate_series(1, 10) g;
CREATE TABLE s (id int, v int);
INSERT INTO s SELECT g, g FROM generate_series(6, 15) g;
MERGE INTO m USING s ON m.id = s.id
	WHEN MATCHED AND s.v < 8 THEN DELETE
	WHEN MATCHED THEN UPDATE SET v = s.v, t = 'merged'
	WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, 'new');
SELECT * FROM m ORDER BY id;});
twins(17, 'MERGE .. RETURNING, WHEN NOT MATCHED BY SOURCE', q{
MERGE INTO m USING s ON m.id = s.id
	WHEN MATCHED THEN UPDATE SET v = m.v + 1
	WHEN NOT MATCHED BY SOURCE AND m.id < 3 THEN DELETE
	WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t = 'gone from s'
	WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, 'again')
	RETURNING merge_action() AS a, m.*, s.id AS sid \g | sort
WITH c AS (MERGE INTO m USING s ON m.id = s.id WHEN MATCHED THEN UPDATE SET v = 0
	RETURNING merge_action(), m.id) SELECT count(*), sum(id) FROM c;
CREATE VIEW mv AS SELECT id, v FROM m WHERE id > 5;
MERGE INTO mv USING s ON mv.id = s.id WHEN NOT MATCHED BY SOURCE THEN DELETE
	WHEN MATCHED THEN UPDATE SET v = 7 RETURNING merge_action(), mv.id \g | sort
SELECT * FROM m ORDER BY id;});
twins(18, 'MERGE .. RETURNING old, new', q{
MERGE INTO m USING s ON m.id = s.id
	WHEN MATCHED AND s.id % 2 = 0 THEN UPDATE SET v = m.v + 100
	WHEN MATCHED THEN DELETE
	WHEN NOT MATCHED THEN INSERT VALUES (s.id, -1, 'inserted')
	RETURNING merge_action() AS a, old.id AS o, old.v AS ov, new.id AS n, new.v AS nv \g | sort
SELECT * FROM m ORDER BY id;});

# --- RETURNING old and new: in place, moved, with triggers, on conflict
twins(18, 'RETURNING old, new', q{
CREATE TABLE r (id int PRIMARY KEY, k int, t text);
CREATE INDEX ON r (k);
INSERT INTO r SELECT g, g, repeat('x', g) FROM generate_series(1, 8) g RETURNING old.*, new.*;
UPDATE r SET t = 'in place' WHERE id = 1 RETURNING old.*, new.*, r.t, old, new;
UPDATE r SET t = repeat('grows', 1000) WHERE id = 2 RETURNING old.t, length(new.t);
UPDATE r SET k = -k WHERE id IN (3, 4) RETURNING old.k, new.k;
UPDATE r SET id = 30 WHERE id = 3 RETURNING old.id, new.id;
UPDATE r SET t = old.t FROM r AS old WHERE old.id = r.id + 1 AND r.id = 5 RETURNING WITH (OLD AS o) o.t, r.t;
DELETE FROM r WHERE id = 6 RETURNING old.*, new.*;
INSERT INTO r VALUES (1, 100, 'conflict'), (9, 9, 'no conflict')
	ON CONFLICT (id) DO UPDATE SET t = r.t || excluded.t RETURNING old.*, new.*;
INSERT INTO r VALUES (1, 0, 'again') ON CONFLICT (id) DO UPDATE SET k = 55 RETURNING old.k, new.k;
BEGIN;
UPDATE r SET t = 'once' WHERE id = 7;
UPDATE r SET t = 'twice' WHERE id = 7 RETURNING old.t, new.t;
SAVEPOINT a;
UPDATE r SET t = 'three times' WHERE id = 7 RETURNING old.t, new.t;
ROLLBACK TO a;
UPDATE r SET t = 'four times' WHERE id = 7 RETURNING old.t, new.t;
DELETE FROM r WHERE id = 7 RETURNING old.t, new.t;
ROLLBACK;
UPDATE r SET t = 'after' WHERE id = 7 RETURNING old.t, new.t;
CREATE FUNCTION louder() RETURNS trigger LANGUAGE plpgsql AS
	$$BEGIN IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; NEW.t := upper(NEW.t) || '/' || coalesce(OLD.t, 'none'); RETURN NEW; END$$;
CREATE TRIGGER louder BEFORE INSERT OR UPDATE OR DELETE ON r FOR EACH ROW EXECUTE FUNCTION louder();
UPDATE r SET t = 'trigger' WHERE id = 7 RETURNING old.t, new.t;
INSERT INTO r VALUES (7, 0, 'conflict') ON CONFLICT (id) DO UPDATE SET t = excluded.t RETURNING old.t, new.t;
DELETE FROM r WHERE id = 8 RETURNING old.t, new.t;
CREATE VIEW rv AS SELECT id AS i, t AS s FROM r;
UPDATE rv SET s = 'by view' WHERE i = 7 RETURNING old.*, new.*;
WITH u AS (UPDATE r SET k = k + 1 WHERE id < 3 RETURNING old.k AS a, new.k AS b) SELECT sum(a), sum(b) FROM u;
CREATE TABLE rp (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE rp1 PARTITION OF rp FOR VALUES FROM (0) TO (10);
CREATE TABLE rp2 PARTITION OF rp FOR VALUES FROM (10) TO (20);
INSERT INTO rp VALUES (1, 1), (11, 11);
UPDATE rp SET id = id + 10, v = 0 WHERE id = 1 RETURNING old.tableoid::regclass, old.*, new.tableoid::regclass, new.*;
SELECT id, k, length(t) FROM r ORDER BY id; SELECT * FROM rp ORDER BY id;});

# after waiting for who changed the row first; a trigger changes it on the way
SKIP:
{
	skip 'RETURNING old needs 18', 4 if $version < 18;
	my %answer;
	for my $t ('z', 'h')
	{
		$node->safe_psql('postgres', qq{SET search_path = $t;
CREATE TABLE w (id int PRIMARY KEY, v int, t text) USING $am{$t}; INSERT INTO w SELECT g, 0, 'first' FROM generate_series(1, 4) g;
CREATE TABLE wt (id int PRIMARY KEY, v int, t text) USING $am{$t}; INSERT INTO wt SELECT * FROM w;
CREATE FUNCTION add_one() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.v := NEW.v + 1; RETURN NEW; END';
CREATE TRIGGER add_one BEFORE UPDATE ON wt FOR EACH ROW EXECUTE FUNCTION add_one();});
		my @said;
		for my $table ('w', 'wt')
		{
			my ($one, $two) = (session($node), session($node));
			ask($_, "SET search_path = $t") for $one, $two;
			for my $change ("UPDATE $table SET v = v + 10, t = 'second'", "UPDATE $table SET id = id + 100, v = v + 10",
				"UPDATE $table SET t = repeat('long', 500)")
			{
				for my $ask ("UPDATE $table SET t = 'third', v = v + 5 WHERE id IN (1, 101) RETURNING old.id, old.v, left(old.t, 5), new.id, new.v, left(new.t, 5)",
					"MERGE INTO $table x USING (VALUES (1)) q(i) ON x.id % 100 = q.i WHEN MATCHED THEN UPDATE SET v = x.v + 7 RETURNING merge_action(), old.v, new.v",
					"DELETE FROM $table WHERE id % 100 = 1 RETURNING old.v, new.v",
					"INSERT INTO $table VALUES (1, -1, 'conflict') ON CONFLICT (id) DO UPDATE SET v = 1000 + $table.v RETURNING old.v, new.v")
				{
					ask($one, "BEGIN; $change");
					ask($two, 'BEGIN');
					send_sql($two, $ask);
					$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'})
					  or die 'nobody waits';
					ask($one, 'COMMIT');
					push @said, "$change; $ask: " . ask($two, 'SELECT 1');
					ask($two, 'ROLLBACK');
					$node->safe_psql('postgres', "SET search_path = $t; TRUNCATE $table; INSERT INTO $table SELECT g, 0, 'first' FROM generate_series(1, 4) g");
				}
			}
			finish_session($_) for $one, $two;
		}
		$answer{$t} = join("\n", @said);
	}
	like($answer{h}, qr/10/, 'after waiting: heap has answers');
	is($answer{z}, $answer{h}, 'RETURNING old, new after waiting');
}

# --- virtual generated columns
twins(18, 'virtual generated columns', q{
CREATE TABLE g (id int PRIMARY KEY, a int, v int GENERATED ALWAYS AS (a * 2) VIRTUAL, s int GENERATED ALWAYS AS (a * 3) STORED, t text);
INSERT INTO g (id, a) SELECT i, i FROM generate_series(1, 5) i RETURNING *;
UPDATE g SET a = a + 10 WHERE v = 4 RETURNING old.v, new.v, old.s, new.s;
UPDATE g SET t = 'in place' WHERE v > 6 RETURNING old.*, new.* \g | sort
ALTER TABLE g ADD COLUMN w text GENERATED ALWAYS AS (t || '!') VIRTUAL;
ALTER TABLE g ALTER COLUMN v SET EXPRESSION AS (a * 100);
SELECT * FROM g ORDER BY id;
CREATE INDEX ON g (v);
CREATE STATISTICS gs ON a, s FROM g; ANALYZE g;
ALTER TABLE g ADD CHECK (v < 2000);
UPDATE g SET a = 20 WHERE id = 1;
CREATE FUNCTION show() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE NOTICE '% %', OLD, NEW; RETURN NEW; END$$;
CREATE TRIGGER show AFTER UPDATE ON g FOR EACH ROW WHEN (OLD.v IS DISTINCT FROM NEW.v) EXECUTE FUNCTION show();
UPDATE g SET a = a + 1 WHERE id = 2;
UPDATE g SET a = a + 1 WHERE id <> 2 AND v > 10000;
UPDATE g SET t = 'no news';
DELETE FROM g WHERE v = 500 RETURNING *;
COPY (SELECT * FROM g ORDER BY id) TO STDOUT;
CREATE TABLE g2 (LIKE g INCLUDING ALL); INSERT INTO g2 (id, a, t) SELECT id, a, t FROM g; SELECT * FROM g2 ORDER BY id;
VACUUM FULL g; SELECT * FROM g ORDER BY id;
ALTER TABLE g ALTER COLUMN a TYPE bigint;
ALTER TABLE g DROP COLUMN v; ALTER TABLE g DROP COLUMN w; SELECT * FROM g ORDER BY id;});

# --- NOT NULL constraints
twins(18, 'NOT NULL constraints', q{
CREATE TABLE n (id int, a int, b int CONSTRAINT b_there NOT NULL);
INSERT INTO n VALUES (1, NULL, 1), (2, 2, 2);
ALTER TABLE n ADD CONSTRAINT a_there NOT NULL a;
ALTER TABLE n ADD CONSTRAINT a_there NOT NULL a NOT VALID;
INSERT INTO n VALUES (3, NULL, 3);
UPDATE n SET b = 5 WHERE id = 1;
UPDATE n SET b = 5 WHERE id = 2;
ALTER TABLE n VALIDATE CONSTRAINT a_there;
UPDATE n SET a = 0 WHERE id = 1;
ALTER TABLE n VALIDATE CONSTRAINT a_there;
ALTER TABLE n ALTER CONSTRAINT a_there NO INHERIT;
BEGIN; UPDATE n SET a = 1; ALTER TABLE n DROP CONSTRAINT a_there; UPDATE n SET a = NULL; ROLLBACK;
UPDATE n SET a = NULL WHERE id = 2;
ALTER TABLE n ADD CONSTRAINT odd CHECK (a % 2 = 0) NOT ENFORCED;
UPDATE n SET a = 1 WHERE id = 1;
ALTER TABLE n ADD PRIMARY KEY (id);
SELECT conname, contype, convalidated, connoinherit, conenforced FROM pg_constraint WHERE conrelid = 'n'::regclass ORDER BY 1;
SELECT * FROM n ORDER BY id;});

# --- keys in time
SKIP:
{
	skip 'btree_gist is not installed', 2 if !$gist && $version >= 18;
	twins(18, 'WITHOUT OVERLAPS, PERIOD', q{
CREATE TABLE p (id int, at daterange, v text, PRIMARY KEY (id, at WITHOUT OVERLAPS));
INSERT INTO p VALUES (1, '[2020-01-01,2020-02-01)', 'a'), (1, '[2020-02-01,2020-03-01)', 'b'), (2, '[2020-01-01,)', 'c');
INSERT INTO p VALUES (1, '[2020-01-15,2020-01-20)', 'overlaps');
INSERT INTO p VALUES (1, 'empty', 'empty');
UPDATE p SET v = 'in place' WHERE id = 1;
UPDATE p SET at = '[2020-01-10,2020-02-02)' WHERE v = 'in place' AND lower(at) = '2020-01-01';
UPDATE p SET at = '[2020-01-10,2020-02-01)' WHERE lower(at) = '2020-01-01' AND id = 1;
INSERT INTO p VALUES (1, '[2020-01-01,2020-01-10)', 'fits now');
INSERT INTO p VALUES (1, '[2020-01-15,2020-01-20)', 'x') ON CONFLICT DO NOTHING;
INSERT INTO p VALUES (1, '[2020-01-15,2020-01-20)', 'x') ON CONFLICT (id, at) DO UPDATE SET v = 'y';
CREATE TABLE f (id int, at daterange, pid int, PRIMARY KEY (id, at WITHOUT OVERLAPS),
	FOREIGN KEY (pid, PERIOD at) REFERENCES p (id, PERIOD at));
INSERT INTO f VALUES (1, '[2020-01-05,2020-02-20)', 1);
INSERT INTO f VALUES (2, '[2020-01-05,2020-04-20)', 1);
INSERT INTO f VALUES (3, '[2021-01-05,2021-04-20)', 2);
DELETE FROM p WHERE v = 'fits now';
DELETE FROM p WHERE id = 2;
UPDATE p SET at = '[2021-01-01,)' WHERE id = 2;
UPDATE p SET at = '[2021-02-01,)' WHERE id = 2;
UPDATE p SET id = 3 WHERE id = 2;
UPDATE f SET at = '[2020-01-05,2022-01-01)' WHERE id = 1;
UPDATE f SET at = '[2020-01-06,2020-01-07)' WHERE id = 1;
BEGIN; DELETE FROM f; DELETE FROM p WHERE id = 1; INSERT INTO p VALUES (1, '[2020-01-01,)', 'all'); ROLLBACK;
INSERT INTO p VALUES (1, '[2020-01-01,2020-01-02)', 'still there');
DELETE FROM p WHERE at = '[2020-02-01,2020-03-01)';
CREATE TABLE u (id int, at daterange, UNIQUE (id, at WITHOUT OVERLAPS));
INSERT INTO u VALUES (NULL, '[2020-01-01,)'), (NULL, '[2020-01-01,)'), (1, NULL), (1, '[2020-01-01,)');
INSERT INTO u VALUES (1, '[2020-05-01,)');
SELECT * FROM p ORDER BY id, at; SELECT * FROM f ORDER BY id; SELECT count(*) FROM u;});
}

# --- COPY that goes on after errors
my $lines = "1\t10\nx\t20\n3\tmany\n4\t40\n\\.\n";
twins(17, 'COPY .. ON_ERROR', "CREATE TABLE c (a int, b int);\nCOPY c FROM STDIN WITH (ON_ERROR ignore);\n${lines}SELECT * FROM c ORDER BY a;
COPY c FROM STDIN WITH (ON_ERROR ignore, LOG_VERBOSITY verbose);\n${lines}COPY c FROM STDIN;\n${lines}SELECT * FROM c ORDER BY a;\n");
twins(18, 'COPY .. REJECT_LIMIT', "COPY c FROM STDIN WITH (ON_ERROR ignore, REJECT_LIMIT 1);\n${lines}COPY c FROM STDIN WITH (ON_ERROR ignore, REJECT_LIMIT 2);
${lines}SELECT count(*), sum(a) FROM c;\nBEGIN; CREATE TABLE c2 (a int, b int);\nCOPY c2 FROM STDIN WITH (ON_ERROR ignore, FREEZE);\n${lines}SELECT * FROM c2; COMMIT;\n");

# --- the privilege MAINTAIN
twins(17, 'MAINTAIN', q{
CREATE TABLE k (a int PRIMARY KEY, b int); INSERT INTO k SELECT g, g FROM generate_series(1, 100) g; UPDATE k SET b = 0;
SET ROLE keeper; VACUUM k; ANALYZE k; REINDEX TABLE k; CLUSTER k USING k_pkey; RESET ROLE;
GRANT MAINTAIN ON k TO keeper;
SET ROLE keeper; VACUUM k; VACUUM FULL k; ANALYZE k; REINDEX TABLE k; CLUSTER k USING k_pkey;
BEGIN; LOCK TABLE k IN SHARE ROW EXCLUSIVE MODE; COMMIT; SELECT count(*) FROM k; UPDATE k SET b = 1; RESET ROLE;
CREATE MATERIALIZED VIEW kv AS SELECT sum(b) FROM k; UPDATE k SET b = 2; GRANT MAINTAIN ON kv TO keeper;
SET ROLE keeper; REFRESH MATERIALIZED VIEW kv; RESET ROLE; SELECT * FROM kv;
SELECT reltuples FROM pg_class WHERE oid = 'k'::regclass;});

# --- the access method of a partitioned table, and DEFAULT
my $ams = q{SELECT relname, (SELECT amname FROM pg_am a WHERE a.oid = relam) FROM pg_class
	WHERE relname ~ '^am_' AND relkind IN ('r', 'p', 'm') ORDER BY 1};
SKIP:
{
	skip 'SET ACCESS METHOD DEFAULT is of 17', 3 if $version < 17;
	is($node->safe_psql('postgres', qq{
CREATE TABLE am_p (a int) PARTITION BY RANGE (a);
CREATE TABLE am_p1 PARTITION OF am_p FOR VALUES FROM (0) TO (10);
ALTER TABLE am_p SET ACCESS METHOD zheap;
CREATE TABLE am_p2 PARTITION OF am_p FOR VALUES FROM (10) TO (20);
CREATE TABLE am_p3 PARTITION OF am_p FOR VALUES FROM (20) TO (30) USING heap;
CREATE TABLE am_p4 PARTITION OF am_p FOR VALUES FROM (30) TO (40) PARTITION BY LIST (a);
CREATE TABLE am_p41 PARTITION OF am_p4 DEFAULT;
INSERT INTO am_p SELECT generate_series(0, 39);
$ams}), "am_p|zheap\nam_p1|heap\nam_p2|zheap\nam_p3|heap\nam_p4|zheap\nam_p41|zheap", 'partitions take it from their parent');
	is($node->safe_psql('postgres', qq{
CREATE TABLE am_t (a int) USING zheap; INSERT INTO am_t VALUES (1);
CREATE MATERIALIZED VIEW am_v USING zheap AS SELECT * FROM am_t;
ALTER TABLE am_p SET ACCESS METHOD DEFAULT; ALTER TABLE am_p2 SET ACCESS METHOD DEFAULT;
ALTER TABLE am_p1 SET ACCESS METHOD zheap;
ALTER TABLE am_t SET ACCESS METHOD DEFAULT; ALTER MATERIALIZED VIEW am_v SET ACCESS METHOD DEFAULT;
CREATE TABLE am_p5 PARTITION OF am_p FOR VALUES FROM (50) TO (60);
$ams}), "am_p|\nam_p1|zheap\nam_p2|heap\nam_p3|heap\nam_p4|zheap\nam_p41|zheap\nam_p5|heap\nam_t|heap\nam_v|heap", 'DEFAULT takes it back');
	is($node->safe_psql('postgres', q{
SET default_table_access_method = zheap; ALTER TABLE am_t SET ACCESS METHOD DEFAULT;
BEGIN; ALTER TABLE am_p1 SET ACCESS METHOD heap; UPDATE am_p SET a = a + 1 WHERE a < 5; ROLLBACK;
SELECT count(*), sum(a), (SELECT sum(a) FROM am_t) FROM am_p}), '40|780|1', 'with all their rows');
}

# --- settings of VACUUM that are of no use for zheap, or of the same
for my $set ([ 17, 'vacuum_freeze_min_age = 0' ], [ 18, 'vacuum_max_eager_freeze_failure_rate = 1' ],
	[ 18, 'track_cost_delay_timing = on; SET vacuum_cost_delay = 1; SET vacuum_cost_limit = 50' ], [ 18, 'vacuum_truncate = off' ])
{
	my ($since, $setting) = @$set;

	next if $version < $since;
	my $size = $node->safe_psql('postgres', qq{SET $setting;
CREATE TABLE vs (a int, t text) USING zheap WITH (autovacuum_enabled = off);
INSERT INTO vs SELECT g, repeat('v', 100) FROM generate_series(1, 20000) g; VACUUM vs; DELETE FROM vs WHERE a > 10; SELECT pg_relation_size('vs')});
	undo_quiet($node, $setting);
	is($node->safe_psql('postgres', "SET $setting; VACUUM (FREEZE, VERBOSE) vs; SELECT count(*), pg_relation_size('vs') < $size FROM vs"),
		$setting =~ /truncate/ ? '10|f' : '10|t', "VACUUM with $setting");
	is($node->safe_psql('postgres', "VACUUM (TRUNCATE) vs; SELECT count(*), pg_relation_size('vs') < $size FROM vs; DROP TABLE vs"), '10|t', "and without");
}

# --- what pg_stat_io counts
SKIP:
{
	skip 'pg_stat_io is of 16', 2 if $version < 16;
	my $counted = q{SELECT sum(reads + hits) FROM pg_stat_io WHERE backend_type = 'client backend' AND object = 'relation'};
	my $pages = $node->safe_psql('postgres', q{CREATE TABLE io (a int, t text) USING zheap;
INSERT INTO io SELECT g, repeat('i', 100) FROM generate_series(1, 20000) g; SELECT pg_relation_size('io') / 8192});
	my $before = $node->safe_psql('postgres', $counted);
	$node->safe_psql('postgres', 'SELECT count(*) FROM io');
	ok($node->poll_query_until('postgres', "SELECT ($counted) >= $before + $pages"), "a scan of $pages pages is counted");

	# who reads old versions of half of the rows reads undo, too
	my $s = session($node);
	ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM io');
	$node->safe_psql('postgres', q{UPDATE io SET t = repeat('j', 100) WHERE a % 2 = 0});
	$before = $node->safe_psql('postgres', $counted);
	is(ask($s, q{SELECT count(*) FROM io WHERE t LIKE 'i%'}), '20000', 'old versions are read');
	ask($s, 'COMMIT');
	finish_session($s);
	ok($node->poll_query_until('postgres', "SELECT ($counted) >= $before + $pages * 1.2"), 'and the undo that they come from');
}

is($node->safe_psql('postgres', q{SELECT n.nspname, count(*) > 1, count(*) FILTER (WHERE a.amname <> CASE n.nspname WHEN 'z' THEN 'zheap' ELSE 'heap' END)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_am a ON a.oid = c.relam
	WHERE n.nspname IN ('z', 'h') AND c.relkind IN ('r', 'm') GROUP BY 1 ORDER BY 1}), "h|t|0\nz|t|0", 'each schema has its access method');
check_tables($node, 'at the end');
$node->stop;
if ($version >= 18)
{
	command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'checksums, on by default, are right');
}
log_is_clean($node);
done_testing();
