# A reader of a standby leaves hints in xact slots of which the primary knows
# nothing.  When the primary frees, trims or gives back xact slots, no other
# owner of the place inherits one: what it changes is seen as soon as it has
# committed, and never if it aborted.  Needs a server with assertions
# (undo_debug.h): the seed has page deltas that log few equal bytes.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('primary', allows_streaming => 1, conf => q{
autovacuum = off
fsync = off
zheap.debug_seed = 5
});
$node->start;
needs_assertions($node);
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE t (a int PRIMARY KEY, b int) USING zheap;
INSERT INTO t SELECT g, 0 FROM generate_series(1, 5) g;});
my $standby = zheap_standby($node);
$node->wait_for_catchup($standby);

sub on_standby
{
	my ($expected, $name) = @_;

	$node->wait_for_catchup($standby);
	return is($standby->safe_psql('postgres', 'SELECT a, b FROM t ORDER BY a'), $expected, $name);
}

for my $round (1 .. 3)
{
	# U stays below the writer as long as there is an old snapshot
	my $old = session($node);
	ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$node->safe_psql('postgres', "UPDATE t SET b = $round WHERE a = 1");
	$node->wait_for_catchup($standby);
	# only a commit record up to which the standby may have to recover gets one
	$standby->safe_psql('postgres', 'CHECKPOINT');
	on_standby("1|$round\n" . join("\n", map { "$_|" . ($round - 1) } 2 .. 5), "$round: a standby's reader");
	ask($old, 'COMMIT');
	finish_session($old);
	undo_quiet($node, $round);

	# frees the xact slot; its next owner finds it so
	$node->safe_psql('postgres', 'VACUUM t');
	my $w = session($node);
	ask($w, "BEGIN; UPDATE t SET b = -1 WHERE a = 2");
	# a page of another table, so that the change is in the log that is sent
	$node->safe_psql('postgres', 'CREATE TABLE u (); DROP TABLE u');
	on_standby("1|$round\n" . join("\n", map { "$_|" . ($round - 1) } 2 .. 5), '... while the next owner runs');
	ask($w, 'ROLLBACK');
	finish_session($w);
	on_standby("1|$round\n" . join("\n", map { "$_|" . ($round - 1) } 2 .. 5), '... after it aborted');
	$node->safe_psql('postgres', "UPDATE t SET b = $round WHERE a > 1");
	on_standby(join("\n", map { "$_|$round" } 1 .. 5), '... after the one that follows has committed');
}

$node->stop;
$standby->promote;
is($standby->safe_psql('postgres', 'SELECT count(*), sum(b) FROM t'), '5|15', 'promoted');
undo_quiet($standby, 'at the end');
ok(check_tables($standby, 'at the end'), 'tables are sound');
$standby->stop;
log_is_clean($node);
log_is_clean($standby);
done_testing();
