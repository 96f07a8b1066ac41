# What newer major versions offer: scans, ANALYZE and VACUUM of a table that is
# larger than shared buffers give heap's answers however the server reads (18:
# by workers, by io_uring, in the process itself); tables grow by many pages at
# once (16); processes say by name what they wait for (17); columns that only
# BRIN indexes cover stay in place (16).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('newer', conf => q{
shared_buffers = 1MB
autovacuum = off
max_parallel_workers_per_gather = 2
min_parallel_table_scan_size = 0
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE z (id int, k int, t text) USING zheap;
CREATE TABLE h (id int, k int, t text) USING heap;});
my %am = (z => 'zheap', h => 'heap');
for my $t ('z', 'h')
{
	$node->safe_psql('postgres', qq{
INSERT INTO $t SELECT g, g * 7919 % 10007, repeat('x', g % 200) FROM generate_series(1, 40000) g;
CREATE INDEX ${t}_k ON $t (k);
CREATE INDEX ${t}_b ON $t USING brin (id) WITH (pages_per_range = 4);
UPDATE $t SET t = t || 'y' WHERE id % 5 = 0;
DELETE FROM $t WHERE id % 11 = 0;
BEGIN; UPDATE $t SET t = 'never' WHERE id % 3 = 0; ROLLBACK;
CREATE TABLE ${t}_c USING $am{$t} AS SELECT g AS id, repeat('c', 80) AS t FROM generate_series(1, 40000) g;});
}

# the same question of both tables, by the kind of scan that is allowed
sub same
{
	my ($what, $settings, $sql) = @_;
	my %answer;
	for my $t ('z', 'h')
	{
		(my $q = $sql) =~ s/\bT(_c)?\b/$t . ($1 \/\/ '')/ge;
		$answer{$t} = $node->safe_psql('postgres', "$settings; $q");
	}
	isnt($answer{h}, '', "$what: heap has an answer");
	is($answer{z}, $answer{h}, $what);
	return;
}

my $sums = 'count(*), sum(id), sum(k), sum(length(t))';
my $serial = 'SET max_parallel_workers_per_gather = 0';

sub ask_all
{
	my ($how) = @_;
	same("$how: sequential scan", $serial, "SELECT $sums FROM T");
	same("$how: parallel scan", 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0', "SELECT $sums FROM T");
	same("$how: bitmap scan", "$serial; SET enable_seqscan = off; SET enable_indexscan = off", "SELECT $sums FROM T WHERE k BETWEEN 100 AND 3000");
	same("$how: lossy bitmap", "$serial; SET enable_seqscan = off; SET enable_indexscan = off; SET work_mem = '64kB'", "SELECT $sums FROM T WHERE k < 9000");
	same("$how: BRIN", "$serial; SET enable_seqscan = off", "SELECT $sums FROM T WHERE id BETWEEN 5000 AND 9000");
	same("$how: TID range", "$serial; SET enable_seqscan = on", "SELECT count(*) > 0 FROM T WHERE ctid BETWEEN '(10,1)' AND '(40,1)'");
	same("$how: cursor that turns around", "$serial; SET synchronize_seqscans = off", q{BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM T_c;
		MOVE 20000 IN c; FETCH BACKWARD 2 FROM c; MOVE BACKWARD 15000 IN c; FETCH 2 FROM c; MOVE ALL IN c; FETCH BACKWARD 1 FROM c; COMMIT});
	return;
}

ask_all('first');
if ($node->pg_version >= 18)
{
	for my $method ('sync', 'worker', 'io_uring')
	{
		$node->append_conf('postgresql.conf', "io_method = $method");
		if (!$node->restart(fail_ok => 1))
		{
			# a server without it, or a kernel that forbids it
			isnt($method, 'worker', "$method isn't there");
			$node->append_conf('postgresql.conf', 'io_method = worker');
			$node->start;
			next;
		}
		ask_all("io_method $method");
	}
}

# --- ANALYZE and VACUUM, which read by streams, too
$node->safe_psql('postgres', 'VACUUM ANALYZE z; VACUUM ANALYZE h');
my ($z, $h) = map { $node->safe_psql('postgres', "SELECT reltuples FROM pg_class WHERE relname = '$_'") } 'z', 'h';
is($z, $h, 'VACUUM ANALYZE counts as many rows');
ask_all('after VACUUM');
check_tables($node, 'after VACUUM');

# --- dead entries of more blocks than memory is given for: several passes
$node->safe_psql('postgres', q{DELETE FROM z WHERE id % 2 = 0; DELETE FROM h WHERE id % 2 = 0});
undo_quiet($node, 'rows are gone for all');
$node->safe_psql('postgres', q{SET maintenance_work_mem = '64kB'; VACUUM z; VACUUM h}) if $node->pg_version >= 18;
$node->safe_psql('postgres', q{SET maintenance_work_mem = '1MB'; VACUUM z; VACUUM h});
ask_all('after deletes');
check_tables($node, 'after deletes');

# --- pages that are added for all who wait for one: none is lost or given twice
$node->safe_psql('postgres', q{CREATE TABLE wide (a int, t text) USING zheap; ALTER TABLE wide ALTER t SET STORAGE plain});
$node->pgbench('-n -c 12 -j 2 -t 30', 0, [qr{processed: 360/360}], [qr{^$}], 'many who insert',
	{ '062_wide' => q{INSERT INTO wide SELECT g, repeat('w', 3000) FROM generate_series(1, 20) g} });
my $sorted = q{SELECT count(*), sum(a), bool_and(n <= 2) FROM (SELECT a, count(*) OVER (PARTITION BY (ctid::text::point)[0]) n FROM wide) w};
is($node->safe_psql('postgres', $sorted), '7200|75600|t', 'all rows, no more on a page than it has room for');
$node->safe_psql('postgres', q{INSERT INTO wide SELECT g, repeat('w', 3000) FROM generate_series(1, 20) g; VACUUM wide});
is($node->safe_psql('postgres', $sorted), '7220|75810|t', 'and on the next');

# --- names of wait events
SKIP:
{
	skip 'wait events have names since 17', 8 if $node->pg_version < 17;
	ok( $node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity
		WHERE wait_event_type = 'Extension' AND wait_event = 'ZheapUndoLauncherMain'}), 'the launcher says what it waits for');
	# a worker that is locked out of the table waits, too
	my $holder = session($node);
	is(ask($holder, q{SET zheap.rollback_foreground_size = 0; BEGIN; SAVEPOINT a;
INSERT INTO z SELECT g, g, 'never' FROM generate_series(1, 1000) g; ROLLBACK TO a; LOCK TABLE z}), '', 'rows to be taken back from a locked table');
	ok( $node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity
		WHERE wait_event_type = 'Extension' AND wait_event = 'ZheapRollbackWorkerMain'}), 'so does a worker');
	ask($holder, 'COMMIT');

	# who waits until what aborted is rolled back
	my $waiter = session($node);
	chomp(my $pid = ask($waiter, 'SELECT pg_backend_pid()'));
	my $waits_for = "SELECT coalesce(max(wait_event_type || ' ' || wait_event), '') = 'Extension %s' FROM pg_stat_activity WHERE pid = $pid";
	set_conf($node, 'zheap.rollback_paused' => 'on');
	ask($holder, 'BEGIN; UPDATE z_c SET id = -id; ROLLBACK');
	send_sql($waiter, q{SELECT pg_zheap_drain_undo('1 hour')});
	ok($node->poll_query_until('postgres', sprintf $waits_for, 'ZheapRollbackDrain'), 'pg_zheap_drain_undo() waits by name');
	set_conf($node, 'zheap.rollback_paused' => 'off');
	is(ask($waiter, 'SELECT 1'), "t\n1", 'until it is done');

	# a writer that needs room; it gives up after a second, again and again
	ask($holder, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM z');
	set_conf($node, 'zheap.max_undo_size' => '1MB');
	send_sql($waiter, q{DO $$ BEGIN LOOP BEGIN UPDATE z_c SET t = upper(t); EXCEPTION WHEN configuration_limit_exceeded THEN NULL; END; END LOOP; END $$});
	ok($node->poll_query_until('postgres', sprintf $waits_for, 'ZheapUndoRoom'), 'a writer waits for room by name');
	is($node->safe_psql('postgres', "SELECT pg_terminate_backend($pid, 180000)"), 't', 'it ends');
	ask($holder, 'COMMIT');
	set_conf($node, 'zheap.max_undo_size' => '-1');
	finish_session($_) for $holder, $waiter;

	# a vacuum that wants the horizons raised, of a launcher that doesn't answer
	$waiter = session($node);
	chomp($pid = ask($waiter, 'SELECT pg_backend_pid()'));
	$waits_for =~ s/pid = \d+/pid = $pid/;
	my $launcher = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'undo launcher'});
	kill 'STOP', $launcher;
	send_sql($waiter, 'VACUUM (FREEZE) wide;' x 1000);
	ok($node->poll_query_until('postgres', sprintf $waits_for, 'ZheapUndoHorizon'), 'VACUUM waits for the horizons by name');
	kill 'CONT', $launcher;
	is($node->safe_psql('postgres', "SELECT pg_terminate_backend($pid, 180000)"), 't', 'it ends, too');
	finish_session($waiter);
}

# --- BRIN columns
SKIP:
{
	skip 'BRIN columns stay in place since 16', 6 if $node->pg_version < 16;
	$node->safe_psql('postgres', q{
CREATE TABLE b (id int PRIMARY KEY, k int) USING zheap;
CREATE INDEX b_k ON b USING brin (k) WITH (pages_per_range = 1);
INSERT INTO b SELECT g, g FROM generate_series(1, 1000) g;});
	my $tids = $node->safe_psql('postgres', 'SELECT sum((ctid::text::point)[1]), count(*) FROM b WHERE id <= 10');
	my $s = session($node);
	ask($s, 'SET enable_seqscan = off; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM b');
	$node->safe_psql('postgres', 'UPDATE b SET k = k + 100000 WHERE id <= 10');
	is($node->safe_psql('postgres', 'SELECT sum((ctid::text::point)[1]), count(*) FROM b WHERE id <= 10'), $tids, 'rows stay where they are');
	is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*), sum(id) FROM b WHERE k > 100000'), '10|55', 'the summary has the new values');
	$node->safe_psql('postgres', q{SELECT brin_desummarize_range('b_k', 0); SELECT brin_summarize_range('b_k', 0)});
	is(ask($s, 'SELECT count(*), sum(id) FROM b WHERE k <= 10'), '10|55', 'a summary made anew has the old ones, too');
	ask($s, 'COMMIT');
	finish_session($s);
	$node->safe_psql('postgres', 'BEGIN; UPDATE b SET k = -id WHERE id <= 10; ROLLBACK');
	is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*), sum(id) FROM b WHERE k > 100000'), '10|55', 'after a rollback');

	# the chunks of what aborted are gone, the row isn't rolled back yet
	set_conf($node, 'zheap.rollback_paused' => 'on');
	$node->safe_psql('postgres', q{
CREATE TABLE bt (id int, t text) USING zheap;
ALTER TABLE bt ALTER t SET STORAGE EXTERNAL;
CREATE INDEX bt_t ON bt USING brin (t) WITH (pages_per_range = 1);
INSERT INTO bt SELECT g, repeat(chr(96 + g), 3000) FROM generate_series(1, 4) g;});
	$s = session($node);
	ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$node->safe_psql('postgres', q{
UPDATE bt SET t = repeat(chr(106 + id), 3000);
SET zheap.rollback_foreground_size = 0;
BEGIN;
UPDATE bt SET t = repeat('x', 3000);
UPDATE bt SET t = repeat('y', 4000);
UPDATE bt SET t = repeat('z', 5000);
ROLLBACK;});
	my $toast = $node->safe_psql('postgres', q{SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'bt'});
	$node->safe_psql('postgres', "VACUUM $toast");
	$node->safe_psql('postgres', q{SELECT brin_desummarize_range('bt_t', 0); SELECT brin_summarize_range('bt_t', 0)});
	is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*), sum(id) FROM bt WHERE t < 'n'}), '3|6', 'a summary beside large values that aborted');
	is(ask($s, q{SET enable_seqscan = off; SELECT count(*), sum(id) FROM bt WHERE t < 'd'}), '3|6', 'for an old snapshot, too');
	ask($s, 'COMMIT');
	finish_session($s);
	set_conf($node, 'zheap.rollback_paused' => 'off');
}
$node->stop;
log_is_clean($node, qr{zheap.max_undo_size allows});
done_testing();
