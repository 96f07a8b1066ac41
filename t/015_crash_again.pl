# A crash in the middle of recovery, then another one at another place, then a
# third in the background rollback that follows; and crashes where a page gets
# one more xact slot and where an xact slot is taken over.  Needs a server
# with assertions (undo/undo_debug.h).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('again', conf => q{
autovacuum = off
wal_consistency_checking = 'zheap'
restart_after_crash = on
});
$node->start;
needs_assertions($node);
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE z (k int PRIMARY KEY, c int, t text) USING zheap;
CREATE TABLE h (k int PRIMARY KEY, c int, t text);
INSERT INTO z SELECT g, 0, repeat('z', 30) FROM generate_series(1, 2000) g;
INSERT INTO h TABLE z;
CREATE UNLOGGED TABLE u (a int) USING zheap;
INSERT INTO u SELECT generate_series(1, 100);
});
my $file;

sub same_as_heap
{
	my ($what) = @_;
	is( $node->safe_psql('postgres', q{
SELECT count(*) FROM ((TABLE z EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE z)) d}), '0', "$what: zheap has what heap has");
}

for my $fpw ('on', 'off')
{
	set_conf($node, full_page_writes => $fpw, 'zheap.rollback_paused' => 'on');
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $s = session($node);
	ask($s, q{BEGIN; UPDATE z SET c = c + 1000, t = 'never'; DELETE FROM z WHERE k % 3 = 0; INSERT INTO u VALUES (0)});
	for my $t (qw(z h))
	{
		$node->safe_psql('postgres', "INSERT INTO $t SELECT g, 1, 'more' FROM generate_series((SELECT max(k) + 1 FROM h), (SELECT max(k) + 300 FROM h)) g") if $t eq 'z';
	}
	$node->safe_psql('postgres', 'INSERT INTO h SELECT * FROM z WHERE k > (SELECT max(k) FROM h)');
	ask($s, q{UPDATE z SET c = c + 1 WHERE k % 2 = 0});
	kill_server($node);
	finish_session($s);

	# in the middle of redo, twice
	for my $round (1, 2)
	{
		$file = order_point($node, 'redo-undo-page', 'crash');
		ok(!$node->start(fail_ok => 1), "full_page_writes $fpw: recovery $round dies in the middle");
		ok(!-e $file, 'at its point');
		unlink $node->data_dir . '/postmaster.pid';
	}
	ok($node->start(fail_ok => 1), 'the third one comes to its end');
	same_as_heap('after three recoveries');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM u'), '0', 'the unlogged table is empty');

	# in the background rollback
	$file = order_point($node, 'page-rolled-back', 'crash');
	$node->append_conf('postgresql.conf', "zheap.rollback_paused = off\n");
	$node->reload;
	for (1 .. 200)
	{
		last if !-e $file;
		select(undef, undef, undef, 0.1);
	}
	ok(!-e $file, 'a worker dies in the middle of the rollback');
	wait_until_up($node) or die 'no server';
	same_as_heap('after a crash of the rollback');
	undo_quiet($node, "full_page_writes $fpw");
	same_as_heap('rolled back');
	check_tables($node, "full_page_writes $fpw");
	$node->safe_psql('postgres', 'INSERT INTO u SELECT generate_series(1, 100)');
}

# --- another transaction slot for a page, and one taken over from a committed
# --- transaction that an old snapshot still asks for
for my $point (qw(growing grown taking-over taken-over))
{
	my @open = map { session($node) } 1 .. 7;
	my $old = session($node);
	$file = order_point($node, $point, 'crash');
	my $wait = '';
	for my $round (1 .. 3)
	{
		last if !-e $file;
		ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM h');
		for my $i (0 .. $#open)
		{
			last if !-e $file;
			my $k = 10 + $i;
			# some commit, some go on; in both tables or in none
			ask($open[$i], "SET lock_timeout = '1s'; BEGIN; UPDATE z SET c = c + 1 WHERE k = $k; UPDATE h SET c = c + 1 WHERE k = $k; "
				  . ($point =~ /tak/ || $i % 3 == 0 ? 'COMMIT' : 'SELECT 1'));
		}
		if (-e $file)
		{
			ask($_, 'ROLLBACK') for @open;
			ask($old, 'COMMIT');
		}
	}
	ok(!-e $file, "$point was reached") or unlink $file;
	finish_session($_) for @open, $old;
	select(undef, undef, undef, 0.3);
	$node->poll_query_until('postgres', 'SELECT true') or die "no restart after $point";
	same_as_heap($point);
	check_tables($node, $point);
}
undo_quiet($node, 'at the end');
same_as_heap('at the end');
$node->stop;
done_testing();
