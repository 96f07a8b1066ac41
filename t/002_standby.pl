# A streaming standby replays every kind of change, checked page by page, and
# shows the primary's rows; old snapshots there; files that an abort removes;
# promotion with transactions in flight.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('primary', allows_streaming => 1, conf => q{
wal_consistency_checking = 'zheap'
autovacuum_naptime = 1s
shared_buffers = 4MB
wal_keep_size = 8GB
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE s (k int PRIMARY KEY, c int, v int, t text) USING zheap;
CREATE INDEX s_v ON s (v);
CREATE TABLE w (k int PRIMARY KEY, c int, v int, t text) USING zheap;
CREATE INDEX w_v ON w (v);
CREATE TABLE bulk (a int, b text) USING zheap;
INSERT INTO s SELECT g, 0, g, 'before' FROM generate_series(1, 2000) g;
INSERT INTO w SELECT g, 0, g % 10, 'x' FROM generate_series(1, 300) g;
});
my $standby = zheap_standby($node, feedback => 1, conf => q{
shared_buffers = 4MB
wal_keep_size = 8GB
});

my @tables = qw(s w bulk);

sub same_on_standby
{
	my ($what) = @_;
	$node->wait_for_catchup($standby);
	is(tables_digest($standby, \@tables), tables_digest($node, \@tables),
		"standby shows the same rows $what");
}

# --- an old snapshot of the standby reads old versions while rows are changed,
# --- moved, deleted and rolled back on the primary, which knows of it all along:
# --- what was discarded before the first feedback would stop replay for good
ok($node->poll_query_until('postgres',
	'SELECT count(*) = 1 FROM pg_stat_replication WHERE backend_xmin IS NOT NULL'), 'feedback');
$node->wait_for_catchup($standby);
my $old = session($standby);
my $digest = 'SELECT count(*), sum(hashtextextended(s::text, 0)::numeric) FROM s';
my $before = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $digest");
like($before, qr/^2000\|/, 'snapshot on the standby');
$node->safe_psql('postgres', q{
UPDATE s SET c = c + 1 WHERE k <= 1000;
UPDATE s SET c = c + 1 WHERE k <= 500;
UPDATE s SET t = repeat('long', 100) WHERE k BETWEEN 700 AND 800;
DELETE FROM s WHERE k BETWEEN 1500 AND 1600;
INSERT INTO s SELECT g, 0, g, 'new' FROM generate_series(3001, 3100) g;
UPDATE s SET v = -v WHERE k BETWEEN 1200 AND 1300;
BEGIN; UPDATE s SET c = -1, t = 'undone'; DELETE FROM s WHERE k < 300; ROLLBACK;
});
$node->wait_for_catchup($standby);
is(ask($old, $digest), $before, 'old snapshot on the standby: old rows');
is(ask($old, 'SELECT c, v, t FROM s WHERE k = 1250'), '0|1250|before', 'also through an index');
is( ask($old, q{SET enable_seqscan = off; SELECT count(*) FROM s WHERE v BETWEEN -1300 AND -1200}),
	'0', 'which does not show new keys');
ask($old, 'COMMIT');
same_on_standby('after changes under an old snapshot');

# --- without feedback it is cancelled, and never reads something wrong
set_conf($standby, hot_standby_feedback => 'off', max_standby_streaming_delay => '100ms');
ok($node->poll_query_until('postgres',
	'SELECT count(*) = 1 FROM pg_stat_replication WHERE backend_xmin IS NULL'), 'no feedback');
$before = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $digest");
$node->safe_psql('postgres', 'UPDATE s SET c = c + 1; VACUUM s; UPDATE s SET c = c + 1 WHERE k > 900; SELECT pg_current_xact_id();');
for (1 .. 100)
{
	my $now = ask($old, $digest);
	next if $now eq $before;
	like($now, qr/conflict with recovery|$lost/, 'old snapshot is cancelled');
	last;
}
continue { select(undef, undef, undef, 0.1) }
finish_session($old);
$old = session($standby);
same_on_standby('after a conflict');
set_conf($standby, max_standby_streaming_delay => '-1');

# a running transaction of the primary is invisible on the standby
my $run = session($node);
ask($run, q{BEGIN; UPDATE s SET c = 12345 WHERE k <= 50; SAVEPOINT a; DELETE FROM s WHERE k = 60;
RELEASE a; SAVEPOINT b; UPDATE s SET c = 54321 WHERE k BETWEEN 70 AND 80; ROLLBACK TO b;
INSERT INTO s VALUES (9999, 1, 1, 'mine');
SELECT pg_switch_wal()});
same_on_standby('while a transaction runs');
ask($run, 'COMMIT');
same_on_standby('after its commit');

# --- load
my $script = $node->basedir . '/load.sql';
append_to_file($script, q{
\set k random(1, 300)
\set n random(1, 15)
\set len random(0, 900)
\set base 1000 + :client_id * 100
BEGIN;
\if :n = 1
UPDATE w SET t = repeat('y', :len) WHERE k = :k;
\elif :n = 2
UPDATE w SET v = v + 1 WHERE k = :k;
\elif :n = 3
DELETE FROM w WHERE k BETWEEN :base AND :base + 99;
INSERT INTO w SELECT g, 0, g, 'again' FROM generate_series(:base, :base + 99) g;
\elif :n = 4
SAVEPOINT a;
UPDATE w SET c = c + 100 WHERE k = :k;
ROLLBACK TO a;
UPDATE w SET c = c + 1 WHERE k = :k;
\elif :n = 5
UPDATE w SET c = c + 1 WHERE k BETWEEN :base AND :base + 99;
\elif :n = 6
UPDATE w SET v = v + 1, t = t || 'z' WHERE k BETWEEN :base AND :base + 99;
ROLLBACK;
BEGIN;
\elif :n = 7
SELECT 1 FROM w WHERE k = :k FOR SHARE;
\elif :n = 8
SELECT 1 FROM w WHERE k = :k FOR UPDATE;
UPDATE w SET c = c + 1 WHERE k = :k;
\elif :n = 9
INSERT INTO bulk SELECT g, repeat('b', :len) FROM generate_series(1, 50) g;
\elif :n = 10
DELETE FROM bulk WHERE a = (:len % 50) AND length(b) < 500;
\else
UPDATE w SET c = c + 1 WHERE k = :k;
\endif
COMMIT;
});
my ($benchout, $bencherr) = ('', '');
my $bench = IPC::Run::start(
	[ $node->installed_command('pgbench'), '-n', '-c', 6, '-j', 2, '-T', 6, '-R', 150, '-f', $script,
		$node->connstr('postgres') ], '>', \$benchout, '2>', \$bencherr);
my @rows = map { "$_\tcopied $_\n" } 1 .. 3000;
for (1 .. 3)
{
	sleep 2;
	$node->safe_psql('postgres', 'VACUUM w; VACUUM bulk; CHECKPOINT;');
	$node->safe_psql('postgres', "COPY bulk FROM STDIN;\n" . join('', @rows) . "\\.\n");
	$standby->safe_psql('postgres', 'SELECT count(*) FROM w; SELECT sum(c) FROM w WHERE v = 3;');
}
$bench->finish;
unlike($bencherr, qr/ERROR|aborted|PANIC/, 'load ran without errors');
same_on_standby('after load');
check_tables($node, 'on the primary after load');

# --- files that an abort removes (the unlink is in WAL before the rollback)
$node->safe_psql('postgres', q{
BEGIN; CREATE TABLE gone (a int) USING zheap; INSERT INTO gone SELECT generate_series(1, 10); ROLLBACK;
BEGIN; CREATE TABLE gone (a int) USING zheap; INSERT INTO gone SELECT generate_series(1, 10000);
UPDATE gone SET a = -a; ROLLBACK;
BEGIN; SAVEPOINT a; CREATE TABLE gone (a int) USING zheap; INSERT INTO gone VALUES (1); ROLLBACK TO a; COMMIT;
BEGIN; UPDATE s SET c = 1 WHERE k <= 5; TRUNCATE s; INSERT INTO s VALUES (1, 1, 1, 'x');
UPDATE s SET c = 2; ROLLBACK;
BEGIN; SAVEPOINT a; TRUNCATE s; INSERT INTO s VALUES (1, 1, 1, 'x'); ROLLBACK TO a; UPDATE s SET c = 3 WHERE k = 1; COMMIT;
BEGIN; UPDATE s SET c = 8; TRUNCATE s; INSERT INTO s VALUES (1, 1, 1, 'x'); SAVEPOINT b; UPDATE s SET c = 9; ROLLBACK;
CREATE TABLE gone (a int) USING zheap; INSERT INTO gone SELECT generate_series(1, 1000);
BEGIN; UPDATE gone SET a = a + 1; DROP TABLE gone; COMMIT;
CHECKPOINT;
});
same_on_standby('after rolled-back files');
ok($standby->safe_psql('postgres', 'SELECT pg_is_in_recovery()') eq 't', 'standby lives');
$standby->restart;
same_on_standby('after restart of the standby');

# --- promotion with transactions in flight, one prepared
set_conf($node, 'zheap.rollback_paused' => 'on', 'zheap.rollback_foreground_size' => '0');
$node->safe_psql('postgres', q{BEGIN; UPDATE s SET c = c + 77 WHERE k > 1000; DELETE FROM s WHERE k BETWEEN 10 AND 20; ROLLBACK});
$node->safe_psql('postgres', q{BEGIN; UPDATE s SET t = 'kept' WHERE k = 2; PREPARE TRANSACTION 'yes'});
$node->safe_psql('postgres', q{BEGIN; UPDATE s SET t = 'lost' WHERE k = 3; DELETE FROM s WHERE k = 4; PREPARE TRANSACTION 'no'});
ask($run, q{BEGIN; UPDATE s SET c = c + 99 WHERE k BETWEEN 100 AND 900; UPDATE s SET t = repeat('q', 500) WHERE k BETWEEN 300 AND 320;
INSERT INTO s SELECT g, g, g, 'never' FROM generate_series(20000, 20999) g; SELECT pg_switch_wal()});
$node->safe_psql('postgres', 'UPDATE s SET c = 4711 WHERE k = 1');
same_on_standby('before promotion');
my $digest_before = tables_digest($node, \@tables);
kill_server($node);
finish_session($run);
finish_session($old);
$standby->append_conf('postgresql.conf', "zheap.rollback_paused = off\n");
$standby->promote;
is(tables_digest($standby, \@tables), $digest_before, 'the same rows at once after promotion');
$standby->safe_psql('postgres', q{COMMIT PREPARED 'yes'; ROLLBACK PREPARED 'no'});
is($standby->safe_psql('postgres', 'SELECT k, t FROM s WHERE k IN (2, 3, 4) ORDER BY k'),
	"2|kept\n3|before\n4|before", 'prepared transactions end as they are told');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM s WHERE k >= 20000'), '0', 'rows in flight are not there');
undo_quiet($standby, 'after promotion');
is($standby->safe_psql('postgres', 'UPDATE s SET c = 1 WHERE k BETWEEN 100 AND 110 RETURNING 1') =~ tr/1//,
	11, 'rows can be written');
$standby->safe_psql('postgres', 'VACUUM');
check_tables($standby, 'on the promoted server');
$standby->stop;
log_is_clean($_) for $node, $standby;
done_testing();
