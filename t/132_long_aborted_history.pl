# A page with a long aborted history, which no worker rolls back: each session
# that needs it does so by batches.  Between two of them the page is free for
# others and the session can be cancelled, be it a writer, a reader by any kind
# of scan, VACUUM, or a transaction that looks for row locks.  Needs a server
# with assertions (undo_debug.h).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $n = 6000;
my $node = zheap_node('history', conf => q{
autovacuum = off
fsync = off
zheap.max_rollback_workers = 0
zheap.rollback_foreground_size = 0
wal_consistency_checking = 'zheap'
});
$node->start;
needs_assertions($node);
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE t (a int PRIMARY KEY, b int, c text) USING zheap;
INSERT INTO t SELECT g, 0, 'c' FROM generate_series(1, 5) g;});

# records of the page that are still to be taken back
sub left
{
	return $node->safe_psql('postgres', q{
SELECT count(*) FROM zheap_page_slots('t', 0) s, zheap_undo_records('t', 0, s.id)
WHERE s.status = 'aborted'});
}

sub abort_many
{
	$node->safe_psql('postgres', qq{
BEGIN;
DO \$\$ BEGIN FOR i IN 1..$n LOOP UPDATE t SET b = i, c = repeat('x', i % 50) WHERE a = 1; END LOOP; END \$\$;
INSERT INTO t SELECT g, 1, 'aborted' FROM generate_series(10, 20) g;
ROLLBACK;});
}

my $rows = join("\n", map { "$_|0|c" } 1 .. 5);

# [name, statement, its answer when it is left alone]
my @who = (
	[ 'a writer of another row', 'UPDATE t SET b = 0 WHERE a = 2 RETURNING b', '0' ],
	[ 'a locker of the row', 'SELECT b FROM t WHERE a = 1 FOR UPDATE', '0' ],
	[ 'an insert', "INSERT INTO t VALUES (6, 0, 'c'); DELETE FROM t WHERE a = 6", '' ],
	[ 'a sequential scan', 'SET enable_indexscan = off; SELECT b FROM t WHERE a = 1', '0' ],
	[ 'an index scan', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT b FROM t WHERE a = 1', '0' ],
	[ 'a bitmap scan', 'SET enable_seqscan = off; SET enable_indexscan = off; SELECT b FROM t WHERE a = 1', '0' ],
	[ 'SERIALIZABLE', 'BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY; SELECT b FROM t WHERE a = 1; COMMIT', '0' ],
	[ 'VACUUM', 'VACUUM t', '' ],
	[ 'VACUUM FULL', 'VACUUM FULL t', '' ],
	[ 'ANALYZE', 'ANALYZE t', '' ],
	[ 'CREATE INDEX', 'CREATE INDEX t_b ON t (b); DROP INDEX t_b', '' ]);

for my $case (@who)
{
	my ($name, $sql, $answer) = @$case;

	abort_many();
	my $s = session($node);
	my $pid = ask($s, 'SELECT pg_backend_pid()');
	order_point($node, 'rollback-between-batches', 'wait', $pid);
	send_sql($s, $sql);
	ok(wait_at_point($node, 'rollback-between-batches'), "$name gives the page up");
	# VACUUM FULL holds a lock that keeps everybody out
	my $between = $name eq 'VACUUM FULL' ? undef : left();
	ok($between > 0 && $between < $n, '... some of the work is done, some is left')
	  if defined $between;
	is($node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)"), 't', '... it is cancelled');
	like(ask($s, 'ROLLBACK'), qr/canceling statement/, '... and ends');
	leave_point($node, 'rollback-between-batches');
	$between //= left();
	is(left(), $between, '... what was done stays');
	cmp_ok($between, '<', $n, '... which is some of it');
	is($node->safe_psql('postgres', 'SELECT * FROM t WHERE b = 0 ORDER BY a'), $rows, '... all answers are right');
	is(ask($s, $sql), $answer, '... and it succeeds when it is left alone');
	finish_session($s);
}

# a reader while the writer is between two batches
abort_many();
my $w = session($node);
my $pid = ask($w, 'SELECT pg_backend_pid()');
order_point($node, 'rollback-between-batches', 'wait', $pid);
send_sql($w, q{UPDATE t SET b = b + 1 WHERE a = 1; SELECT 'W done';});
ok(wait_at_point($node, 'rollback-between-batches'), 'a writer has given the page up');
is($node->safe_psql('postgres', 'SELECT b FROM t WHERE a = 1'), '0', 'a reader sees the row');
is($node->safe_psql('postgres', 'UPDATE t SET b = 7 WHERE a = 3 RETURNING b'), '7', 'another writer changes another one');
leave_point($node, 'rollback-between-batches');
like(ask($w, 'SELECT b FROM t WHERE a IN (1, 3) ORDER BY a'), qr/W done\n1\n7/, 'then the writer goes on');
finish_session($w);

# Batches of one record.  Where a session has been it may come again: while it has
# given the page up, somebody else rolls back the rest, and then its own transaction
# changes more rows by the xact slot that it has rolled back.
$node->append_conf('postgresql.conf', "zheap.debug_set = 'rollback-batch=1'");
$node->restart;
$node->safe_psql('postgres', q{
CREATE TABLE r (a int, b int) USING zheap;
INSERT INTO r SELECT g, 0 FROM generate_series(1, 5) g;});
sub states { return $node->safe_psql('postgres', "SELECT string_agg(status, ' ' ORDER BY id) FROM zheap_page_slots('r', 0)"); }
my $v = session($node);
$w = session($node);
$pid = ask($w, 'SELECT pg_backend_pid()');
ask($v, 'BEGIN; UPDATE r SET b = 9 WHERE a = 1');
ask($w, 'BEGIN; UPDATE r SET b = 8 WHERE a = 4; SAVEPOINT a; UPDATE r SET b = 9 WHERE a = 5; ROLLBACK TO a');
ask($v, 'ROLLBACK');
is(states(), 'aborted aborted', 'aborted changes by two xact slots');
order_point($node, 'rollback-horizon', 'wait', $pid);
send_sql($w, 'UPDATE r SET b = 0 WHERE a = 2');
ok(wait_at_point($node, 'rollback-horizon'), 'a writer has given the page up');
is(states(), 'running aborted', '... after it had rolled back its own');
$node->safe_psql('postgres', 'UPDATE r SET b = 7 WHERE a = 3');
leave_point($node, 'rollback-horizon');
is(ask($w, 'ROLLBACK TO a; UPDATE r SET b = 6 WHERE a = 2 RETURNING b'), '6', 'it takes back and changes a row, which is no ring');
ask($w, 'COMMIT');
is($node->safe_psql('postgres', 'SELECT b FROM r ORDER BY a'), "0\n6\n7\n8\n0", '... as it should be');
finish_session($_) foreach $v, $w;

# A session that aborts can't be cancelled: it has no time (0 ms) for others'
# history, nor has it while it looks whose a version was that it restores.
$node->append_conf('postgresql.conf', "zheap.debug_set = 'rollback-batch=10,foreground-ms=0,look-up=1'");
$node->restart;
my $own = session($node);
ask($own, q{SET zheap.rollback_foreground_size = '256kB'});
for my $how ('ROLLBACK', 'ROLLBACK TO a; COMMIT')
{
	ask($own, q{BEGIN; INSERT INTO r VALUES (9, 9); SAVEPOINT a; UPDATE t SET b = 5 WHERE a = 2});
	abort_many();
	is(ask($own, $how), '', "$how beside a long aborted history");
	my $left = left();
	ok($left > 0 && $left < $n + 1, '... some of that is left to others');
	is($node->safe_psql('postgres', 'SELECT a, b FROM t ORDER BY a'), "1|1\n2|0\n3|7\n4|0\n5|0", '... which are not seen');
	is(ask($own, 'SELECT 1 FROM r WHERE a = 9'), $how eq 'ROLLBACK' ? '' : '1', '... what was to be kept is');
	ask($own, 'DELETE FROM r WHERE a = 9');
	set_conf($node, 'zheap.max_rollback_workers' => '2');
	undo_quiet($node, 'by workers');
	is($node->safe_psql('postgres', 'SELECT a, b FROM t ORDER BY a'), "1|1\n2|0\n3|7\n4|0\n5|0", '... which have taken it back');
	set_conf($node, 'zheap.max_rollback_workers' => '0');
}
$node->safe_psql('postgres', q{
CREATE TABLE l (a int, b int) USING zheap;
INSERT INTO l SELECT g, 0 FROM generate_series(1, 5) g;});
undo_quiet($node, 'what is older is visible to all');
my $old = session($node);
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM l');
# all xact slots have an owner, and another one has that of both rows just then
$node->safe_psql('postgres', 'UPDATE l SET b = 1 WHERE a = 3') foreach 1 .. 10;
$node->safe_psql('postgres', 'UPDATE l SET b = 1 WHERE a <= 2');
$v = session($node);
ask($v, 'BEGIN; UPDATE l SET b = 2 WHERE a = 1');
ask($own, 'BEGIN; UPDATE l SET b = 2 WHERE a = 2');
ask($v, 'COMMIT');
$node->safe_psql('postgres', "UPDATE l SET b = $_ WHERE a = 1") foreach 3 .. 9;
is(ask($own, 'ROLLBACK'), '', 'ROLLBACK above many owners of an xact slot');
is($node->safe_psql('postgres', q{SELECT count(*) FROM zheap_page_slots('l', 0) WHERE status = 'aborted'}), '1', '... is left to others');
is($node->safe_psql('postgres', 'SELECT b FROM l ORDER BY a'), "9\n1\n1\n0\n0", '... which is not seen');
set_conf($node, 'zheap.max_rollback_workers' => '2');
ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM zheap_page_slots('l', 0) WHERE status = 'aborted'}), '... a worker takes it back');
set_conf($node, 'zheap.max_rollback_workers' => '0');
is($node->safe_psql('postgres', 'SELECT b FROM l ORDER BY a'), "9\n1\n1\n0\n0", '... and rows are right');
is(ask($old, 'SELECT b FROM l ORDER BY a'), "0\n0\n0\n0\n0", '... for an older snapshot, too');
finish_session($_) foreach $old, $own, $v;

# killed between two batches, then recovered: what is left is still known
abort_many();
$w = session($node);
$pid = ask($w, 'SELECT pg_backend_pid()');
order_point($node, 'rollback-between-batches', 'wait', $pid);
send_sql($w, 'DELETE FROM t WHERE a = 2');
ok(wait_at_point($node, 'rollback-between-batches'), 'a writer has given the page up again');
kill_server($node);
leave_point($node, 'rollback-between-batches');
start_after_kill($node);
finish_session($w);
is($node->safe_psql('postgres', 'SELECT a, b FROM t ORDER BY a'), "1|1\n2|0\n3|7\n4|0\n5|0", 'rows after a crash');
$node->safe_psql('postgres', 'ALTER SYSTEM SET zheap.max_rollback_workers = 2; SELECT pg_reload_conf()');
undo_quiet($node, 'at the end');
ok(check_tables($node, 'at the end'), 'tables are sound');
$node->stop;
log_is_clean($node);
done_testing();
