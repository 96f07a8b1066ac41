# A run is marked as rolled back twice, by the aborting backend and by a worker
# (the xid of a released savepoint has no lock).  When the second mark comes
# the page was recycled, and a running transaction's run is at the same place:
# the mark leaves it alone.  Needs a server with assertions (undo_debug.h).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('marks', conf => q{
autovacuum = off
fsync = off
max_wal_size = 4GB
wal_consistency_checking = 'zheap'
});
$node->start;
needs_assertions($node);
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE t (a int, b text) USING zheap;
CREATE TABLE s (a int, b text) USING zheap;
INSERT INTO s SELECT g, repeat('x', 100) FROM generate_series(1, 600) g;
CREATE TABLE w (a int) USING zheap;
VACUUM s;});
undo_quiet($node, 'before');

my $b = session($node);
my $pid = ask($b, 'SELECT pg_backend_pid()');
order_point($node, 'mark-in-abort', 'wait', $pid);
order_point($node, 'mark-by-worker', 'wait');
send_sql($b, q{
BEGIN; SAVEPOINT a; UPDATE s SET b = repeat('y', 100); RELEASE a; ROLLBACK;
SELECT 'B done';});
ok(wait_at_point($node, 'mark-in-abort'), 'the backend has rolled back, and not marked yet');
ok(wait_at_point($node, 'mark-by-worker'), 'a worker found a run unapplied');
# not that of the first page, which begins somewhere: one that begins its page
order_point($node, 'mark-by-worker', 'wait');
unlink $node->data_dir . '/zheap_points/mark-by-worker.at';
ok(wait_at_point($node, 'mark-by-worker'), 'and another one on the next page');

leave_point($node, 'mark-in-abort');
like(ask($b, 'SELECT 1'), qr/B done/, 'the backend marks it');
finish_session($b);
# other xids, and time for the launcher to discard
for (1 .. 6)
{
	$node->safe_psql('postgres', 'INSERT INTO w VALUES (2)');
	select(undef, undef, undef, 0.3);
}

my $x = session($node);
is(ask($x, q{
BEGIN;
INSERT INTO t SELECT g, repeat('z', 100) FROM generate_series(1, 100000) g;}), '', 'the ring of pages is used again');
leave_point($node, 'mark-by-worker');
select(undef, undef, undef, 1);
is(ask($x, 'ROLLBACK'), '', 'and what wrote there is rolled back');
finish_session($x);
ok($node->poll_query_until('postgres', 'SELECT pg_zheap_drain_undo()'), 'all is undone');
for (1 .. 6)
{
	$node->safe_psql('postgres', 'INSERT INTO w VALUES (2)');
	select(undef, undef, undef, 0.2);
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), '0', 'its rows are gone');
is($node->safe_psql('postgres', q{SELECT count(*), min(b) = repeat('x', 100) FROM s}), '600|t',
	'the first rollback is complete, too');
undo_quiet($node, 'at the end');
check_tables($node, 'marks');
log_is_clean($node);
$node->stop;
done_testing();
