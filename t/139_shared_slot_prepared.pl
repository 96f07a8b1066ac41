# Three hundred prepared transactions have rows of one page locked, some of them
# below a savepoint that was rolled back to, beside undo that is discarded after
# each change.  After a crash, and on a standby that is promoted, the same rows
# can be locked in the same modes, and no others, as in heap's table; so too as the
# transactions are resolved, until all undo is gone.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $lockers = 300;
my $conf = qq{
autovacuum = off
fsync = off
max_prepared_transactions = @{[ 2 * $lockers + 20 ]}
max_locks_per_transaction = 64
wal_level = replica
zheap.discard_naptime = 10ms
};
my $node = zheap_node('primary', allows_streaming => 1, conf => $conf);
$node->start;
# a full page of ours, of 98 rows of 79 bytes
$node->safe_psql('postgres', q{CREATE EXTENSION zheap_am;} . join('', map { qq{
CREATE TABLE $_->[0] (id int PRIMARY KEY, v int, t text) USING $_->[1];
CREATE INDEX ON $_->[0] (v);
INSERT INTO $_->[0] SELECT g, g, repeat('x', 61) FROM generate_series(1, 98) g;
} } ['z', 'zheap'], ['h', 'heap']));

# what a locker does: rows 1 to 20 are shared by many, others have one locker, or end
sub work
{
	my ($n, $t) = @_;
	my $shared = 1 + $n % 20;
	my $own = 21 + $n % 70;
	my $sql = "SELECT 1 FROM $t WHERE id = $shared FOR " . ($shared % 2 ? 'KEY SHARE' : 'SHARE') . ";\n";
	$sql .= "SAVEPOINT s; SELECT 1 FROM $t WHERE id = $own FOR UPDATE; ROLLBACK TO s;\n" if $n % 3 == 0 && $n < 70;
	$sql .= "SELECT 1 FROM $t WHERE id = $own FOR NO KEY UPDATE;\n" if $n % 3 == 1 && $n < 70;
	$sql .= "UPDATE $t SET v = -v WHERE id = $own;\n" if $n % 9 == 2 && $n < 70;
	$sql .= "DELETE FROM $t WHERE id = $own;\n" if $n % 9 == 5 && $n < 70;
	return $sql;
}

sub prepare_lockers
{
	my ($from, $to) = @_;
	for my $n ($from .. $to)
	{
		# one transaction each: tables don't differ in whose xids are older
		$node->safe_psql('postgres', join '',
			map { "BEGIN;\n" . work($n, $_) . "PREPARE TRANSACTION '$_$n';\n" } qw(z h));
	}
	return;
}

# each mode gets the rows that heap gives, and readers see the same
sub same_as_heap
{
	my ($server, $what) = @_;
	my %got;
	for my $t (qw(z h))
	{
		my $sql = "SELECT count(*), sum(v) FROM $t;\n";
		for my $mode ('KEY SHARE', 'SHARE', 'NO KEY UPDATE', 'UPDATE')
		{
			$sql .= "BEGIN; SELECT string_agg(id::text, ' ' ORDER BY id) FROM "
			  . "(SELECT id FROM $t FOR $mode SKIP LOCKED) s; ROLLBACK;\n";
		}
		$got{$t} = $server->safe_psql('postgres', $sql);
	}
	isnt($got{z}, '', "$what: rows can be locked");
	return is($got{z}, $got{h}, "$what: what can be locked, and is seen, is heap's");
}

sub resolve
{
	my ($server, $from, $to) = @_;
	$server->safe_psql('postgres', join '', map {
		my $how = $_ % 2 ? 'COMMIT' : 'ROLLBACK';
		"$how PREPARED 'z$_'; $how PREPARED 'h$_';\n"
	} $from .. $to);
	return;
}

prepare_lockers(1, $lockers / 2);
same_as_heap($node, 'half of them prepared');
my $standby = zheap_standby($node, conf => 'hot_standby = on');
$node->safe_psql('postgres', 'CHECKPOINT');
prepare_lockers($lockers / 2 + 1, $lockers);
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 2 * $lockers, 'all are prepared');
same_as_heap($node, 'all prepared');

kill_server($node);
ok(start_after_kill($node), 'the server crashed');
same_as_heap($node, 'after the crash');
ok(check_tables($node, 'after the crash'), 'tables are sound');
$node->safe_psql('postgres', 'VACUUM z; VACUUM h');
same_as_heap($node, 'after VACUUM');

# the primary's lockers end by halves, the standby sees the first
resolve($node, 1, 40);
same_as_heap($node, 'some resolved');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
kill_server($node);
$standby->promote;
is($standby->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 2 * ($lockers - 40), 'the promoted server has them');
same_as_heap($standby, 'promoted');
for my $last (100, 200, $lockers)
{
	resolve($standby, $last == 100 ? 41 : $last - 99, $last);
	same_as_heap($standby, "resolved up to $last");
}
$standby->safe_psql('postgres', 'VACUUM z');
undo_quiet($standby, 'at the end');
ok(check_tables($standby, 'at the end'), 'tables are sound');
log_is_clean($_) foreach $node, $standby;
$standby->stop;
done_testing();
