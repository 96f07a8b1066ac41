# More databases want a rollback than there may be workers: some of them can't
# go on, because a table is locked; all the others are rolled back in turn.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $databases = 66;
my $node = zheap_node('turns', conf => q{
autovacuum = off
fsync = off
max_wal_size = 4GB
zheap.max_rollback_workers = 2
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am; CREATE DATABASE d0');
$node->safe_psql('d0', q{
CREATE EXTENSION zheap_am;
CREATE TABLE t (a int, b text) USING zheap;
INSERT INTO t SELECT g, 'old' FROM generate_series(1, 200) g;});
$node->safe_psql('postgres', "CREATE DATABASE d$_ TEMPLATE d0") for 1 .. $databases;

# three databases whose workers can't go on, and can't even read the catalog
set_conf($node, 'zheap.rollback_paused' => 'on');
my @stuck = map { session($node, "d$_") } 0 .. 2;
for my $s (@stuck)
{
	is(ask($s, q{
SET zheap.rollback_foreground_size = 0;
BEGIN; SAVEPOINT a; INSERT INTO t SELECT g, 'never' FROM generate_series(1, 1000) g; ROLLBACK TO a;
LOCK TABLE t, pg_class, pg_attribute;}), '', 'a rollback that cannot be finished');
}
set_conf($node, 'zheap.rollback_paused' => 'off');
my $workers = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'undo rollback worker'};
# before 16 pg_stat_activity doesn't show them yet
ok($node->poll_query_until('postgres', 'SELECT count(DISTINCT pid) = 2 FROM pg_locks WHERE NOT granted'), 'both workers are taken');

set_conf($node, 'zheap.rollback_paused' => 'on');
for my $i (3 .. $databases)
{
	$node->safe_psql("d$i", q{
SET zheap.rollback_foreground_size = 0;
BEGIN; UPDATE t SET b = 'new'; INSERT INTO t SELECT g, 'never' FROM generate_series(1, 300) g; ROLLBACK;});
}
set_conf($node, 'zheap.rollback_paused' => 'off');

# copied only when nothing is left to be rolled back
for my $i (3, 35, $databases)
{
	is(($node->psql('postgres', "CREATE DATABASE copy$i TEMPLATE d$i"))[2], '', "d$i is rolled back");
	is($node->safe_psql("copy$i", 'SELECT count(*), min(b), max(b) FROM t'), '200|old|old', 'as its copy shows');
}
is($node->safe_psql('postgres', "SELECT ($workers) <= 2"), 't', 'by no more workers than allowed');

# databases that are gone meanwhile don't keep others waiting
set_conf($node, 'zheap.rollback_paused' => 'on');
for my $i (3 .. 6)
{
	$node->safe_psql("d$i", q{SET zheap.rollback_foreground_size = 0; BEGIN; DELETE FROM t; ROLLBACK});
}
$node->safe_psql('postgres', "DROP DATABASE d$_ WITH (FORCE)") for 3 .. 5;
set_conf($node, 'zheap.rollback_paused' => 'off');
is(($node->psql('postgres', 'CREATE DATABASE after TEMPLATE d6'))[2], '', 'beside dropped ones, too');

is(ask($_, 'COMMIT; SELECT count(*) FROM t'), '200', 'the lock is given up') for @stuck;
undo_quiet($node, 'in all databases');
is($node->safe_psql("d$_", 'SELECT count(*), min(b), max(b) FROM t'), '200|old|old', "d$_ is as before")
  for 0, 1, 2, 6, $databases;
finish_session($_) for @stuck;
log_is_clean($node, qr/could not roll back in the background: .*lock timeout/);
$node->stop;
done_testing();
