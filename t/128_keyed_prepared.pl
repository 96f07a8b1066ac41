# Indexed columns changed in place by transactions that are prepared: keys that go
# and come back over savepoints, seen by each kind of scan before the end of the
# transaction and after, with VACUUM, a crash and a failover in between; and the
# same where half of the changes find no xact slot; and marks that VACUUM clears
# while a change is in progress.  A heap twin, changed by the same transactions,
# has the answer each time.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my %scan = (
	'table' => 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off',
	'index' => 'SET enable_seqscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off',
	'index only' => 'SET enable_seqscan = off; SET enable_bitmapscan = off',
	'bitmap' => 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off');
my @ask = (
	"SELECT string_agg(a::text, ' ' ORDER BY a) FROM T WHERE a < 30",
	"SELECT string_agg(id || '=' || a, ' ' ORDER BY id) FROM T WHERE a > 100",
	"SELECT string_agg(b::text, ' ' ORDER BY b) FROM T WHERE b < 0",
	# by both indexes, where these are bitmaps
	"SELECT string_agg(id || '=' || b, ' ' ORDER BY id) FROM T WHERE a BETWEEN 0 AND 300 AND b BETWEEN -300 AND 60");

sub both
{
	my ($sql) = @_;
	return join '', map { my $t = $_; (my $s = $sql) =~ s/\bT\b/$t/g; "$s;\n" } qw(z h);
}

# What each scan of z finds is what heap's table has.
sub same
{
	my ($node, $what) = @_;
	for my $name (sort keys %scan)
	{
		my ($z, $h) = map { my $t = $_; $node->safe_psql('postgres', ($t eq 'z' ? "$scan{$name};" : '') . join(';', map { s/\bT\b/$t/gr } @ask)) } qw(z h);
		is($z, $h, "$what, $name");
	}
	return;
}

my @changes = (
	'UPDATE T SET a = a + 200 WHERE id = %1$d',
	'UPDATE T SET a = a + 200, b = -b WHERE id = %1$d; SAVEPOINT s; UPDATE T SET a = a - 7 WHERE id = %1$d; ROLLBACK TO s; UPDATE T SET a = a - 200 WHERE id = %1$d',
	'SAVEPOINT s; UPDATE T SET b = -b WHERE id = %1$d; RELEASE s; SAVEPOINT s; UPDATE T SET a = a + 1, b = -b WHERE id = %1$d; UPDATE T SET a = a - 1 WHERE id = %1$d',
	'UPDATE T SET a = -a WHERE id = %1$d; DELETE FROM T WHERE id = %1$d',
	q{UPDATE T SET b = -b WHERE id = %1$d; UPDATE T SET t = repeat('long', 20), a = 5 WHERE id = %1$d},
	'SAVEPOINT s; DELETE FROM T WHERE id = %1$d; ROLLBACK TO s; UPDATE T SET a = a + 300 WHERE id = %1$d');

sub prepare
{
	my ($node, $gid, $sql) = @_;
	$node->safe_psql('postgres', "BEGIN;\n" . both($sql) . "PREPARE TRANSACTION '$gid'");
	return;
}

# each changes a row of its own; then all end
sub prepare_all { my ($node) = @_; prepare($node, "p$_", sprintf $changes[ $_ % 6 ], $_) for 1 .. 24; return }

sub end_all
{
	my ($node, @order) = @_;
	for my $i (@order)
	{
		$node->safe_psql('postgres', ($i % 4 == 0 ? 'ROLLBACK' : 'COMMIT') . " PREPARED 'p$i'");
		same($node, "the end of $i") if $i % 6 == 0;
	}
	return;
}

# Marks go when snapshots are behind VACUUM's stamp, those of background processes
# too: until it is so.
sub vacuum_until_clear
{
	my ($node, $rounds) = @_;
	my $left;
	for (1 .. $rounds)
	{
		$node->safe_psql('postgres', 'VACUUM z');
		$node->safe_psql('postgres', 'INSERT INTO tick VALUES (1)');
		$left = $node->safe_psql('postgres', q{SELECT count(*) FROM generate_series(0, pg_relation_size('z') / 8192 - 1) b, zheap_page_items('z', b) WHERE 'stale' = ANY (flags)});
		last if $left eq '0';
		select undef, undef, undef, 0.1;
	}
	return $left;
}

sub vacuum_until_settled
{
	my ($node, $what) = @_;
	is(vacuum_until_clear($node, 10 * $PostgreSQL::Test::Utils::timeout_default), '0', "no mark is left, $what");
	same($node, "after VACUUM, $what");
	return check_tables($node, $what);
}

# VACUUM clears the mark of a row while its end, or a change of another column, is
# in progress: it does not come back with the row.
sub marks_stay_away
{
	my ($node) = @_;
	# the second change finds an own version, whose header it saves
	for my $change ('DELETE FROM z WHERE id = 40', q{UPDATE z SET t = 'u' WHERE id = 40; UPDATE z SET t = 'v' WHERE id = 40},
		q{UPDATE z SET t = 'u' WHERE id = 40; DELETE FROM z WHERE id = 40})
	{
		my $left;
		for (1 .. $PostgreSQL::Test::Utils::timeout_default)
		{
			$node->safe_psql('postgres', both('UPDATE T SET a = a + 1 WHERE id = 40'));
			# this one is to sweep, if no snapshot is in its way
			$node->safe_psql('postgres', 'VACUUM z');
			$node->safe_psql('postgres', 'INSERT INTO tick VALUES (1)');
			my $s = session($node);
			ask($s, "BEGIN; $change");
			$left = vacuum_until_clear($node, 10);
			is(ask($s, 'ROLLBACK'), '', "$change is rolled back");
			finish_session($s);
			last if $left eq '0';
		}
		is($left, '0', "the mark was cleared beside $change");
		undo_quiet($node, $change);
		is($node->safe_psql('postgres', q{SELECT count(*) FROM zheap_page_items('z', 0) WHERE 'stale' = ANY (flags)}), '0', 'it is away');
		same($node, $change);
	}
	return check_tables($node, 'marks');
}

for my $shared (0, 2)
{
	my $node = zheap_node("primary$shared", allows_streaming => 1, conf => qq{
autovacuum = off
wal_consistency_checking = 'zheap'
max_prepared_transactions = 40
zheap.update_indexed_in_place = on
zheap.debug_set = '@{[$shared ? "shared-slot=$shared" : '']}'
});
	$node->start;
	$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE tick (n int);
CREATE TABLE z (id int PRIMARY KEY, a int, b int, t text) USING zheap;
CREATE TABLE h (id int PRIMARY KEY, a int, b int, t text);
CREATE INDEX z_a ON z (a);
CREATE INDEX z_b ON z (b);
INSERT INTO z SELECT g, g, g, 't' FROM generate_series(1, 80) g;
INSERT INTO h TABLE z;} . keyed_allow());
	$node->safe_psql('postgres', q{CALL keyed_allow('z')});
	$node->safe_psql('postgres', 'VACUUM z');
	$node->safe_psql('postgres', 'CHECKPOINT');

	prepare_all($node);
	is($node->safe_psql('postgres', q{SELECT count(*) > 0 FROM zheap_page_items('z', 0) WHERE 'stale' = ANY (flags)}), 't', 'keys have changed in place');
	same($node, 'prepared');
	$node->safe_psql('postgres', 'VACUUM z');
	same($node, 'prepared, and VACUUM');
	kill_server($node);
	ok(start_after_kill($node), 'recovered');
	same($node, 'recovered');
	$node->safe_psql('postgres', 'VACUUM z');
	check_tables($node, 'recovered');
	end_all($node, 1 .. 24);
	vacuum_until_settled($node, 'crash');
	marks_stay_away($node) if !$shared;

	# the standby has an old snapshot; the prepared end where it is promoted
	my $standby = zheap_standby($node, name => "standby$shared", feedback => 1);
	$node->wait_for_catchup($standby);
	my $old = session($standby);
	my $was = ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; ' . join ';', map { s/\bT\b/h/gr } @ask);
	ok($node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_stat_replication WHERE backend_xmin IS NOT NULL'), 'its snapshot is known');
	$node->safe_psql('postgres', both('UPDATE T SET a = id + 1, b = abs(b)'));
	prepare_all($node);
	$node->safe_psql('postgres', 'VACUUM z');
	$node->wait_for_catchup($standby);
	for my $name (sort keys %scan)
	{
		is(ask($old, "RESET ALL; $scan{$name};" . join ';', map { s/\bT\b/z/gr } @ask), $was, "old snapshot of the standby, $name");
	}
	same($standby, 'standby');
	$node->stop('immediate');
	finish_session($old);
	$standby->promote;
	same($standby, 'promoted');
	end_all($standby, reverse 1 .. 24);
	vacuum_until_settled($standby, 'failover');
	undo_quiet($standby, 'failover');
	$standby->stop;
	log_is_clean($_) for $node, $standby;
}
done_testing();
