# wal_level = minimal: tables created, rewritten or truncated in a transaction
# have no WAL until it commits; rollbacks, savepoints and crashes around that.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('minimal', conf => q{
wal_level = minimal
max_wal_senders = 0
wal_consistency_checking = 'zheap'
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am');

# Crash, then compare.
sub after_kill
{
	my ($what, %want) = @_;
	kill_server($node);
	ok(start_after_kill($node), "$what: start after a kill") or BAIL_OUT('no start');
	for my $table (sort keys %want)
	{
		is($node->safe_psql('postgres', "SELECT count(*), coalesce(sum(a), 0), coalesce(sum(length(t)), 0) FROM $table"),
			$want{$table}, "$what: $table");
	}
	check_tables($node, $what);
	undo_quiet($node, $what);
}

for my $threshold ('0', '64MB')		# sync the file, or log its pages at commit
{
	my $n = $threshold eq '0' ? 'a' : 'b';
	set_conf($node, wal_skip_threshold => $threshold);
	$node->safe_psql('postgres', qq{
-- created and filled, updated, savepoints
BEGIN;
CREATE TABLE ${n}1 (a int PRIMARY KEY, t text) USING zheap;
INSERT INTO ${n}1 SELECT g, 'x' FROM generate_series(1, 2000) g;
UPDATE ${n}1 SET t = 'yy' WHERE a <= 1000;
SAVEPOINT s; UPDATE ${n}1 SET t = 'never', a = -a; DELETE FROM ${n}1 WHERE a > -500; ROLLBACK TO s;
SAVEPOINT s; DELETE FROM ${n}1 WHERE a > 1900; INSERT INTO ${n}1 VALUES (5000, 'zzz'); RELEASE s;
UPDATE ${n}1 SET t = repeat('l', 100) WHERE a BETWEEN 101 AND 110;
COMMIT;
-- created before, truncated and filled
CREATE TABLE ${n}2 (a int PRIMARY KEY, t text) USING zheap;
INSERT INTO ${n}2 SELECT g, 'x' FROM generate_series(1, 1000) g;
BEGIN; TRUNCATE ${n}2; INSERT INTO ${n}2 SELECT g, 'new' FROM generate_series(1, 10) g; UPDATE ${n}2 SET t = 'newer'; COMMIT;
-- the same rolled back
CREATE TABLE ${n}3 (a int PRIMARY KEY, t text) USING zheap;
INSERT INTO ${n}3 SELECT g, 'x' FROM generate_series(1, 1000) g;
BEGIN; UPDATE ${n}3 SET t = 'never'; TRUNCATE ${n}3; INSERT INTO ${n}3 SELECT g, 'new' FROM generate_series(1, 10) g;
UPDATE ${n}3 SET t = 'newer'; ROLLBACK;
BEGIN; CREATE TABLE gone (a int) USING zheap; INSERT INTO gone SELECT generate_series(1, 5000); UPDATE gone SET a = 0; ROLLBACK;
BEGIN; SAVEPOINT s; CREATE TABLE gone (a int) USING zheap; INSERT INTO gone SELECT generate_series(1, 5000); ROLLBACK TO s;
UPDATE ${n}3 SET t = 'xx' WHERE a = 1; COMMIT;
-- truncated under a savepoint that goes
BEGIN; UPDATE ${n}3 SET t = 'xx' WHERE a = 2; SAVEPOINT s; TRUNCATE ${n}3; INSERT INTO ${n}3 VALUES (7, 'seven'); ROLLBACK TO s;
UPDATE ${n}3 SET t = 'xx' WHERE a = 3; COMMIT;
-- COPY into a new table, then others use it
BEGIN; CREATE TABLE ${n}4 (a int, t text) USING zheap; COPY ${n}4 FROM STDIN;
1	one
2	two
\\.
UPDATE ${n}4 SET t = t || t; COMMIT;
CREATE INDEX ON ${n}4 (a);
UPDATE ${n}4 SET t = 'three' WHERE a = 2;
CREATE TABLE ${n}5 USING zheap AS SELECT g AS a, repeat('c', g % 10) AS t FROM generate_series(1, 3000) g;
ALTER TABLE ${n}5 ADD PRIMARY KEY (a);
});
	after_kill("threshold $threshold",
		"${n}1" => join('|', 1901, 1900 * 1901 / 2 + 5000, 990 * 2 + 10 * 100 + 900 + 3),
		"${n}2" => '10|55|50', "${n}3" => '1000|500500|1003', "${n}4" => '2|3|11',
		"${n}5" => '3000|4501500|13500');
}

# --- a crash while the creator runs, and one with its rollback pending
$node->safe_psql('postgres', q{CREATE TABLE c (a int PRIMARY KEY, t text) USING zheap; INSERT INTO c SELECT g, 'c' FROM generate_series(1, 3000) g;});
my $s = session($node);
ask($s, q{BEGIN; UPDATE c SET t = 'never'; CREATE TABLE d (a int, t text) USING zheap; INSERT INTO d SELECT g, 'x' FROM generate_series(1, 3000) g;
UPDATE d SET t = 'y'; TRUNCATE c; INSERT INTO c VALUES (1, 'never'); UPDATE c SET t = 'n'});
$node->safe_psql('postgres', 'CHECKPOINT; SELECT pg_current_xact_id()');
after_kill('running creator', c => '3000|4501500|3000');
finish_session($s);
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname = 'd'}), '0', 'its table is gone');

set_conf($node, 'zheap.rollback_paused' => 'on', 'zheap.rollback_foreground_size' => '0');
$node->safe_psql('postgres', q{
BEGIN; UPDATE c SET t = 'never'; TRUNCATE c; INSERT INTO c VALUES (1, 'never'); ROLLBACK;
BEGIN; CREATE TABLE d (a int, t text) USING zheap; INSERT INTO d VALUES (1, 'x'); ROLLBACK;
BEGIN; CREATE TABLE d (a int, t text) USING zheap; INSERT INTO d VALUES (1, 'x'); SAVEPOINT a; UPDATE d SET t = 'never'; INSERT INTO d VALUES (2, 'y'); ROLLBACK TO a; COMMIT;});
is($node->safe_psql('postgres', 'SELECT * FROM d'), '1|x', 'savepoint in a new table');
$node->append_conf('postgresql.conf', "zheap.rollback_paused = off\n");
after_kill('pending rollback', c => '3000|4501500|3000', d => '1|1|1');

# --- a table without WAL whose owner goes on after savepoints were undone
$node->safe_psql('postgres', q{
BEGIN; CREATE TABLE e (a int PRIMARY KEY, t text) USING zheap;
SAVEPOINT a; INSERT INTO e SELECT g, 'x' FROM generate_series(1, 3000) g; ROLLBACK TO a;
INSERT INTO e SELECT g, 'y' FROM generate_series(1, 100) g;
SAVEPOINT b; UPDATE e SET a = a + 1000; DELETE FROM e WHERE a > 1050; ROLLBACK TO b;
UPDATE e SET t = 'zz' WHERE a <= 50; COMMIT; UPDATE e SET t = 'q' WHERE a = 1});
after_kill('undone savepoints', e => '100|5050|149');

$node->stop;
log_is_clean($node);
done_testing();
