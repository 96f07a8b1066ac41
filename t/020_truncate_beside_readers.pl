# A process is about to read a block of an undo log when the launcher cuts the
# log down: the launcher waits for it, and whoever comes later finds the block
# gone.  Needs a server with assertions (undo_debug.h).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('truncate', conf => q{
autovacuum = off
fsync = off
zheap.undo_log_rest_size = 256
});
$node->start;
needs_assertions($node);
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE t (a int, b text) USING zheap;
INSERT INTO t SELECT g, repeat('x', 100) FROM generate_series(1, 5000) g;});
undo_quiet($node, 'before');

my $blocks = q{SELECT max(used_blocks) FROM pg_stat_zheap_undo};
for my $kind ('permanent', 'unlogged')
{
	$node->safe_psql('postgres', 'ALTER TABLE t SET UNLOGGED') if $kind eq 'unlogged';
	my $reader = session($node);
	my $pid = ask($reader, 'SELECT pg_backend_pid()');

	# much undo, which the launcher doesn't discard yet
	my $old = session($node);
	ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
	$node->safe_psql('postgres', "UPDATE t SET b = repeat('" . ($kind eq 'unlogged' ? 'z' : 'y') . "', 100)");
	cmp_ok($node->safe_psql('postgres', $blocks), '>', 50, "a large $kind log");

	order_point($node, 'block-in-use', 'wait', $pid);
	send_sql($reader, 'SELECT pg_zheap_drain_undo()');
	ok(wait_at_point($node, 'block-in-use'), 'a process goes to read a block');
	my $reset = order_point($node, 'reset-flushed', 'wait');
	ask($old, 'COMMIT');
	ok(wait_at_point($node, 'reset-flushed'), 'the launcher is about to truncate the log');
	leave_point($node, 'reset-flushed');
	order_point($node, 'reset-truncated', 'wait');
	select(undef, undef, undef, 1);
	leave_point($node, 'block-in-use');
	ok(wait_at_point($node, 'reset-truncated'), 'and does');
	leave_point($node, 'reset-truncated');
	unlike(ask($reader, q{SELECT 'still here'}), qr/ERROR/, 'the process has read it, or found it gone');
	finish_session($reader);
	finish_session($old);
	undo_quiet($node, 'afterwards');
}
log_is_clean($node);
$node->stop;
done_testing();
