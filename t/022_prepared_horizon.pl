# Several transactions wrote to one undo page, of which all but the last are
# prepared.  One that is rolled back while others go on stays rolled back: the
# horizon doesn't pass it before it is undone.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('prepared', conf => q{
autovacuum = off
fsync = off
zheap.max_rollback_workers = 2
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE t (a int, b text) USING zheap;
INSERT INTO t SELECT g, 'old' FROM generate_series(1, 5) g;
CREATE TABLE y (a int) USING zheap;
CREATE TABLE big (a int, b text) USING zheap;
INSERT INTO big SELECT g, repeat('x', 100) FROM generate_series(1, 3000) g;
});

my $rows = q{SELECT count(*), string_agg(DISTINCT b, ',' ORDER BY b) FROM t};
my $worker_there = q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'undo rollback worker'};
my $no_worker = $worker_there =~ s/count\(\*\) > 0/count(*) = 0/r;

# Writers with later xids, in logs of their own: they let the horizon rise.
sub others_commit
{
	$node->safe_psql('postgres', 'INSERT INTO y VALUES (1)') for 1 .. 3;
}

# A transaction that is prepared, then one that writes behind it in the same
# log and fills pages with it.
sub prepared
{
	my ($gid, $row) = @_;
	$node->safe_psql('postgres', qq{
BEGIN;
INSERT INTO t SELECT g, '$gid' FROM generate_series(100, 110) g;
UPDATE t SET b = 'changed by $gid' WHERE a = $row;
PREPARE TRANSACTION '$gid';});
}

sub horizons_pass
{
	for (1 .. 3)
	{
		others_commit();
		select(undef, undef, undef, 0.3);
	}
}

# --- the only other writer of the page is rolled back while the last one runs
undo_quiet($node, 'before');
ok($node->poll_query_until('postgres', $no_worker), 'workers are gone');
prepared('p', 1);
others_commit();
my $x = session($node);
ask($x, q{BEGIN; UPDATE big SET b = repeat('y', 100)});
select(undef, undef, undef, 1);
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'p'});
horizons_pass();
is($node->safe_psql('postgres', $rows), '5|old', 'rolled back beside a later writer');
ok($node->poll_query_until('postgres', $worker_there), 'a worker has come for it');
is(ask($x, $rows), '5|old', 'for the later writer, too');
ask($x, 'ROLLBACK');
undo_quiet($node, 'one prepared transaction');
is($node->safe_psql('postgres', $rows), '5|old', 'and when all is over');

# --- one in the middle, neither the oldest nor the last
ok($node->poll_query_until('postgres', $no_worker), 'workers are gone again');
prepared('p1', 1);
prepared('p2', 2);
prepared('p3', 3);
others_commit();
ask($x, q{BEGIN; UPDATE big SET b = repeat('z', 100)});
select(undef, undef, undef, 1);
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'p2'});
ok($node->poll_query_until('postgres', $worker_there), 'a worker comes for the one in the middle');
horizons_pass();
is($node->safe_psql('postgres', $rows), '5|old', 'p2 is rolled back');
$node->safe_psql('postgres', q{COMMIT PREPARED 'p1'});
horizons_pass();
is($node->safe_psql('postgres', $rows), '16|changed by p1,old,p1', 'p1 is committed');
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'p3'});
horizons_pass();
is($node->safe_psql('postgres', $rows), '16|changed by p1,old,p1', 'p3 is rolled back');
is(ask($x, q{COMMIT}), '', 'the last writer commits');
undo_quiet($node, 'three prepared transactions');
is($node->safe_psql('postgres', $rows), '16|changed by p1,old,p1', 'and when all is over');
is($node->safe_psql('postgres', q{SELECT count(DISTINCT b), min(left(b, 1)) FROM big}), '1|z',
	'the last writer has changed its rows');
finish_session($x);

# --- the order of xids is not that of the records
$node->safe_psql('postgres', q{UPDATE t SET b = 'old'; DELETE FROM t WHERE a > 5});
ask($x = session($node), q{BEGIN; SELECT pg_current_xact_id() IS NULL});
prepared('late', 4);
ask($x, q{UPDATE big SET b = repeat('w', 100)});
select(undef, undef, undef, 1);
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'late'});
horizons_pass();
is($node->safe_psql('postgres', $rows), '5|old', 'rolled back behind an older xid');
is(ask($x, 'ROLLBACK'), '', 'the older one ends');
undo_quiet($node, 'an older writer behind a later one');
is($node->safe_psql('postgres', $rows), '5|old', 'and when all is over');
finish_session($x);
check_tables($node, 'prepared transactions');
log_is_clean($node);
$node->stop;
done_testing();
