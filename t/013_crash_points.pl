# A process dies at each step of a page switch, a discard, a log's reset, an
# insertion and a rollback: recovery yields what the heap twin has.  Needs a
# server with assertions (undo/undo_debug.h).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('points', conf => q{
restart_after_crash = on
wal_consistency_checking = 'zheap'
autovacuum = off
zheap.undo_log_rest_size = 256kB
});
$node->start;
needs_assertions($node);

$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE EXTENSION amcheck;
CREATE TABLE z (id int PRIMARY KEY, n int, t text) USING zheap;
CREATE TABLE h (id int PRIMARY KEY, n int, t text);
INSERT INTO z SELECT g, 0, repeat('t', g % 90) FROM generate_series(1, 3000) g;
INSERT INTO h TABLE z;
});

# Transactions that switch pages, fill logs beyond their limit, abort in part
# and as a whole; each changes both tables or none.
my $load = '';
for my $i (1 .. 12)
{
	for my $t (qw(z h))
	{
		my $other = $t eq 'z' ? 'h' : 'z';
		my $keys = "id % 12 = $i % 12";
		my $change = sub {
			return "UPDATE $_[0] SET n = n + 1, t = t || 'x' WHERE $keys;\n"
			  . "UPDATE $_[0] SET n = n + $i WHERE id % 5 = 0;\n";
		};
		$load .= "BEGIN;\n" . $change->($t) . "SAVEPOINT s;\n"
		  . "UPDATE $t SET n = -1 WHERE id < 40;\nDELETE FROM $t WHERE id < 20;\n"
		  . "ROLLBACK TO s;\n" . $change->($other) . "COMMIT;\n";
		$load .= "BEGIN;\nUPDATE $t SET n = -9, t = 'never';\n"
		  . "INSERT INTO $t SELECT g FROM generate_series(9000, 9100) g;\nROLLBACK;\n"
		  if $i % 4 == 0;
	}
}
my $script = $node->basedir . '/load.sql';
append_to_file($script, $load);

my $file;
for my $point (qw(switch-extended switch-logged switch-done prepared inserted
	page-rolled-back discard-logged discard-published reset-logged
	reset-flushed reset-truncated))
{
	$file = order_point($node, $point, 'crash');
	for (1 .. 400)
	{
		last if !-e $file;
		eval { $node->psql('postgres', "\\i $script") };
		select(undef, undef, undef, 0.5);
	}
	ok(!-e $file, "$point was reached") or unlink $file;
	wait_until_up($node) or die "the server did not come back after $point";
	is( $node->safe_psql('postgres', q{
SELECT count(*) FROM ((TABLE z EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE z)) d}),
		'0', "$point: zheap has what heap has");
	check_tables($node, "after $point");
}

# A process waits at a point for the test, others pass by.
my $waits = session($node);
my $pid = ask($waits, 'SELECT pg_backend_pid()');
order_point($node, 'inserted', 'wait', $pid);
$node->safe_psql('postgres', 'CREATE TABLE w (a int) USING zheap; INSERT INTO w VALUES (1)');
send_sql($waits, 'INSERT INTO z VALUES (9999)');
ok(wait_at_point($node, 'inserted'), 'the process waits at its point');
is($node->safe_psql('postgres', "SELECT state FROM pg_stat_activity WHERE pid = $pid"),
	'active', 'in the middle of its statement');
leave_point($node, 'inserted');
is(ask($waits, 'SELECT count(*) FROM z WHERE id = 9999'), '1', 'and goes on');
finish_session($waits);

undo_quiet($node, 'at the end');
check_tables($node, 'at the end');
$node->stop;
done_testing();
