# Launcher, rollback worker or aborting backend dies at each step of a rollback
# and of a discard pass: after recovery all that aborted is taken back, once,
# and the tables hold what their heap twins hold.  Needs a server with
# assertions (undo/undo_debug.h).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('die', conf => q{
restart_after_crash = on
wal_consistency_checking = 'zheap'
autovacuum = off
zheap.rollback_foreground_size = 24kB
});
$node->start;
needs_assertions($node);
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE z (id int PRIMARY KEY, n int, t text) USING zheap;
CREATE TABLE h (id int PRIMARY KEY, n int, t text);
INSERT INTO z SELECT g, 0, repeat('t', g % 90) FROM generate_series(1, 2000) g;
INSERT INTO h TABLE z;
CREATE UNLOGGED TABLE u (id int, t text) USING zheap;
});

# rollbacks by the worker, by the session, of savepoints, and of an unlogged table
my $load = '';
for my $i (1 .. 6)
{
	$load .= qq{
BEGIN; UPDATE z SET n = n + $i WHERE id % 7 = $i; UPDATE h SET n = n + $i WHERE id % 7 = $i; COMMIT;
BEGIN; UPDATE z SET n = -1, t = t || 'never'; INSERT INTO z SELECT g FROM generate_series(9000, 9100) g; ROLLBACK;
BEGIN; UPDATE z SET n = -2 WHERE id < 20; DELETE FROM z WHERE id BETWEEN 10 AND 30; ROLLBACK;
BEGIN; SAVEPOINT s; UPDATE z SET n = -3 WHERE id % 3 = 0; RELEASE s; SAVEPOINT s; DELETE FROM z WHERE id < 500; ROLLBACK TO s; ROLLBACK;
BEGIN; INSERT INTO u SELECT g, repeat('u', 200) FROM generate_series(1, 300) g; ROLLBACK;
};
}
my $script = $node->basedir . '/load.sql';
append_to_file($script, $load);

for my $point (qw(run-looked-at run-lock-free page-rolled-back mark-by-worker mark-applied
	applied-logged marked-applied foreground-begins foreground-applied mark-in-abort
	abort-done batch-horizon visit-horizon attached detaching
	pass-horizon pass-log-scanned pass-decided discard-begins discard-logged
	discard-published pass-published))
{
	my $file = order_point($node, $point, 'crash');
	for (1 .. 400)
	{
		last if !-e $file;
		eval { $node->psql('postgres', "\\i $script") };
		select(undef, undef, undef, 0.3);
	}
	ok(!-e $file, "$point was reached") or leave_point($node, $point);
	wait_until_up($node) or die "the server did not come back after $point";
	is( $node->safe_psql('postgres', q{
SELECT count(*) FROM ((TABLE z EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE z)) d}),
		'0', "$point: zheap has what heap has");
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), '0', 'the unlogged table is empty');
undo_quiet($node, 'at the end');
check_tables($node, 'at the end');
$node->stop;
done_testing();
