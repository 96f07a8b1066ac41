# Index entries deleted on the primary while an older snapshot is open on a
# standby without feedback: replay waits for that snapshot, whose index scans
# go on finding their rows.  (A conflict horizon that is too old would give
# wrong answers there.)
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $primary = zheap_node('primary', allows_streaming => 1, conf => "autovacuum = off\n");
$primary->start;
$primary->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (id int, k int, h int, r int4range, v int) USING zheap;
INSERT INTO x SELECT g, g % 10, g % 10, int4range(g, g + 2), 0 FROM generate_series(1, 2000) g;
CREATE INDEX x_id ON x (id);
CREATE INDEX x_k ON x (k);
CREATE INDEX x_h ON x USING hash (h);
CREATE INDEX x_r ON x USING gist (r);
CREATE TABLE tick (n int);
CREATE UNLOGGED TABLE u (n int) USING zheap});
my $standby = zheap_standby($primary, conf => q{
hot_standby_feedback = off
max_standby_streaming_delay = -1
max_standby_archive_delay = -1
});
$primary->wait_for_catchup($standby);

my (undef, undef, $err) = $standby->psql('postgres', q{SELECT * FROM zheap_check('u')});
like($err, qr/cannot access temporary or unlogged relations during recovery/, 'an unlogged table has nothing to be checked');
my $ask = q{SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT count(*), sum(id) FROM x WHERE id BETWEEN 100 AND 900; SELECT count(*), sum(id) FROM x WHERE k = 3;
SELECT count(*), sum(id) FROM x WHERE h = 3; SELECT count(*), sum(id) FROM x WHERE r && '[300,500)'; SELECT count(*), sum(v) FROM x WHERE k BETWEEN 2 AND 4};

# entries die, scans mark them, inserts beside them delete them
sub churn
{
	my ($sql) = @_;
	$primary->safe_psql('postgres', $sql);
	for (1 .. 3)
	{
		$primary->safe_psql('postgres', 'INSERT INTO tick VALUES (1)');
		$primary->safe_psql('postgres', $ask);
	}
	$primary->safe_psql('postgres', q{INSERT INTO x SELECT 10000 + g, g % 10, g % 10, int4range(20000 + g, 20000 + g + 2), 0 FROM generate_series(1, 1500) g});
	$primary->safe_psql('postgres', $ask);
}

my $i = 0;
for my $change ('DELETE FROM x WHERE id % 2 = 1 AND id <= 2000', 'UPDATE x SET k = k + 20, h = h + 20, r = int4range(id + 5000, id + 5001) WHERE id <= 1000',
	'BEGIN; UPDATE x SET k = 77, h = 77, id = -id WHERE id < 1500; DELETE FROM x WHERE id > 10000; ROLLBACK', 'UPDATE x SET v = v + 1; DELETE FROM x WHERE id > 10000')
{
	my $s = session($standby);
	ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	my $before = ask($s, $ask);
	is($before, $primary->safe_psql('postgres', $ask), "standby has what the primary has, round $i");
	churn($change);
	my $lsn = $primary->lsn('insert');
	is(ask($s, $ask), $before, "old snapshot after: $change");
	# replay has come as far as it may
	ok($standby->poll_query_until('postgres', qq{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event = 'RecoveryConflictSnapshot')
		OR pg_last_wal_replay_lsn() >= '$lsn'}), 'replay waits, or is done');
	is(ask($s, $ask), $before, 'old snapshot once more');
	$primary->safe_psql('postgres', 'VACUUM x');
	$primary->safe_psql('postgres', $ask);
	is(ask($s, $ask), $before, 'old snapshot after vacuum');
	ask($s, 'COMMIT');
	finish_session($s);
	$primary->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', $ask), $primary->safe_psql('postgres', $ask), "caught up, round $i");
	is($standby->safe_psql('postgres', 'SELECT count(*), sum(id), sum(k), sum(v) FROM x'), $primary->safe_psql('postgres', 'SELECT count(*), sum(id), sum(k), sum(v) FROM x'), 'whole table');
	$i++;
}
check_tables($primary, 'primary');
$standby->stop;
$primary->stop;
log_is_clean($_) for $primary, $standby;
done_testing();
