# Standbys whose old snapshots are cancelled, not waited for, a cascading one and
# one that replays later: whatever a query there answers is what the heap twin of
# the same snapshot says; the later one is promoted while WAL waits to be
# replayed.
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
max_wal_size = 1GB
wal_keep_size = 512MB
zheap.undo_log_rest_size = 256
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE z (k int PRIMARY KEY, c int, t text) USING zheap;
CREATE TABLE h (k int PRIMARY KEY, c int, t text) USING heap;
INSERT INTO z SELECT g, 0, repeat('x', g % 200) FROM generate_series(1, 1500) g;
INSERT INTO h TABLE z;});

my $cancelling = q{
hot_standby_feedback = off
max_standby_streaming_delay = 100ms
max_standby_archive_delay = 100ms
};
my $near = zheap_standby($node, name => 'near', conf => $cancelling);
my $late = zheap_standby($node, name => 'late', conf => "$cancelling\nrecovery_min_apply_delay = 3s");
my $far = zheap_standby($near, name => 'far', conf => $cancelling);

my $differ = 'SELECT count(*) FROM ((TABLE z EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE z)) d';
my $by_index = q{SET enable_seqscan = off;
SELECT (SELECT sum(c) FROM z WHERE k BETWEEN 1 AND 1500) = (SELECT sum(c) FROM h WHERE k BETWEEN 1 AND 1500)};
my $same = 0;
my $cancelled = 0;
my @wrong;

# an answer is heap's, or none: a statement was cancelled, or a session ended
sub judge
{
	my ($name, $answer) = @_;
	if ($answer eq "0\nt") { $same++; }
	elsif ($answer eq '' || $answer =~ /conflict with recovery|current transaction is aborted|$lost/) { $cancelled++; }
	else { push @wrong, "$name: $answer"; }
	return;
}

# by snapshots of all ages
sub look
{
	my ($sessions) = @_;
	judge("old on $_", ask($sessions->{$_}, "$differ;\n$by_index")) for sort keys %$sessions;
	for my $standby ($near, $late, $far)
	{
		my ($rc, $out, $err) = $standby->psql('postgres', "BEGIN ISOLATION LEVEL REPEATABLE READ; $differ; SELECT pg_sleep(0.2); $by_index");
		judge('new on ' . $standby->name, $rc == 0 ? $out =~ s/\n\n/\n/r : $err);
	}
	return;
}

for my $round (1 .. 4)
{
	my %old = map { ($_->name => session($_)) } $near, $late, $far;
	ask($_, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM h') for values %old;
	for my $step (1 .. 4)
	{
		# both in one transaction, so that any snapshot has both or none
		$node->safe_psql('postgres', qq{
BEGIN;
UPDATE z SET c = c + 1, t = repeat('y', (k * $step) % 150) WHERE k % 7 <> $step;
UPDATE h SET c = c + 1, t = repeat('y', (k * $step) % 150) WHERE k % 7 <> $step;
DELETE FROM z WHERE k % 11 = $step; DELETE FROM h WHERE k % 11 = $step;
SAVEPOINT s; UPDATE z SET c = -1; DELETE FROM z WHERE k % 2 = 0; ROLLBACK TO s;
INSERT INTO z SELECT g, $round, 'new' FROM generate_series(1, 1500) g ON CONFLICT DO NOTHING;
INSERT INTO h SELECT g, $round, 'new' FROM generate_series(1, 1500) g ON CONFLICT DO NOTHING;
COMMIT;
SET zheap.rollback_foreground_size = 0;
BEGIN; UPDATE z SET c = -2, t = 'never'; ROLLBACK;});
		$node->safe_psql('postgres', 'VACUUM z; VACUUM h') if $step == 2;
		look(\%old);
	}
	finish_session($_) for values %old;
}
is(join("\n", @wrong), '', 'each answer is that of the heap twin');
cmp_ok($same, '>', 0, "answers: $same");
cmp_ok($cancelled, '>', 0, "cancelled: $cancelled");

# --- promoted with WAL that has still to be replayed
$late->promote;
undo_quiet($late, 'promoted');
is($late->safe_psql('postgres', $differ), '0', 'promoted: rows');
check_tables($late, 'promoted');
$late->safe_psql('postgres', 'UPDATE z SET c = c + 1; UPDATE h SET c = c + 1');
is($late->safe_psql('postgres', $differ), '0', 'and it can be written');

undo_quiet($node, 'at the end');
$node->wait_for_catchup($near, 'replay', $node->lsn('insert'));
$near->wait_for_catchup($far, 'replay', $near->lsn('replay'));
is($_->safe_psql('postgres', $differ), '0', $_->name . ': rows in the end') for $near, $far;
for ($far, $late, $near, $node)
{
	$_->stop;
	log_is_clean($_);
}
done_testing();
