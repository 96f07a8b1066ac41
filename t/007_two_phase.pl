# Prepared transactions: their undo survives restarts and crashes, their row
# locks hold, and they commit or roll back rightly in any session.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('twophase');
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (k int PRIMARY KEY, c int, t text) USING zheap;
CREATE INDEX x_c ON x (c);
INSERT INTO x SELECT g, g, repeat('x', 60) FROM generate_series(1, 3000) g;
});

sub prepare_two
{
	my ($a, $b, $from) = @_;
	$node->safe_psql('postgres', qq{
BEGIN;
UPDATE x SET c = c + 100000 WHERE k BETWEEN $from AND $from + 99;
SAVEPOINT s; DELETE FROM x WHERE k BETWEEN $from + 100 AND $from + 149; RELEASE s;
SAVEPOINT s; UPDATE x SET c = 0 WHERE k < $from + 200; ROLLBACK TO s;
UPDATE x SET t = repeat('long', 200) WHERE k BETWEEN $from + 150 AND $from + 160;
INSERT INTO x SELECT g, g, 'new' FROM generate_series(10000 + $from, 10000 + $from + 99) g;
SELECT 1 FROM x WHERE k = $from + 190 FOR UPDATE;
PREPARE TRANSACTION '$a';
-- the same session goes on, and its rollback is its own
BEGIN; UPDATE x SET c = -1 WHERE k BETWEEN $from + 200 AND $from + 220; ROLLBACK;
BEGIN;
UPDATE x SET c = c + 200000 WHERE k BETWEEN $from + 300 AND $from + 399;
DELETE FROM x WHERE k BETWEEN $from + 400 AND $from + 449;
INSERT INTO x SELECT g, g, 'new' FROM generate_series(20000 + $from, 20000 + $from + 99) g;
PREPARE TRANSACTION '$b';});
}

my $all = 'SELECT count(*), sum(c), sum(length(t)) FROM x';
my ($count, $sum, $len) = split /\|/, $node->safe_psql('postgres', $all);

# what committing prepare_two's first does
sub first_committed
{
	my ($from) = @_;
	my $deleted = 0;
	$deleted += $_ for $from + 100 .. $from + 149;
	my $new = 0;
	$new += $_ for 10000 + $from .. 10000 + $from + 99;
	$count += 50;
	$sum += 100 * 100000 - $deleted + $new;
	$len += -50 * 60 + 11 * (800 - 60) + 300;
}

sub locked
{
	my ($from, $what) = @_;
	my ($ret, $out, $err) = $node->psql('postgres', 'SELECT 1 FROM x WHERE k = ' . ($from + 190) . ' FOR UPDATE NOWAIT');
	like($err, qr/could not obtain lock/, "$what: row lock holds");
	($ret, $out, $err) = $node->psql('postgres', 'SELECT 1 FROM x WHERE k = ' . $from . ' FOR UPDATE NOWAIT');
	like($err, qr/could not obtain lock/, "$what: changed row is locked");
	($ret, $out, $err) = $node->psql('postgres', 'SET lock_timeout = 100; DELETE FROM x WHERE k = ' . ($from + 100));
	like($err, qr/lock timeout/, "$what: deleted row is locked");
}

my $from = 1;
for my $how ('no restart', 'restart', 'kill', 'kill after a checkpoint')
{
	prepare_two("a$from", "b$from", $from);
	if ($how eq 'restart')
	{
		$node->restart;
	}
	elsif ($how =~ /kill/)
	{
		$node->safe_psql('postgres', 'CHECKPOINT') if $how =~ /checkpoint/;
		kill_server($node);
		ok(start_after_kill($node), "start: $how");
	}
	is($node->safe_psql('postgres', $all), "$count|$sum|$len", "$how: nothing is visible");
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM x WHERE c BETWEEN 100001 + $from AND 100100 + $from"),
		$from > 1 ? $node->safe_psql('postgres', "SELECT count(*) FROM x WHERE c + 0 BETWEEN 100001 + $from AND 100100 + $from") : 0,
		"$how: index agrees");
	locked($from, $how);
	sleep 1;
	is($node->safe_psql('postgres', $all), "$count|$sum|$len", "$how: undo is not discarded");
	$node->safe_psql('postgres', "COMMIT PREPARED 'a$from'");
	first_committed($from);
	is($node->safe_psql('postgres', $all), "$count|$sum|$len", "$how: committed");
	$node->safe_psql('postgres', "ROLLBACK PREPARED 'b$from'");
	is($node->safe_psql('postgres', $all), "$count|$sum|$len", "$how: rolled back");
	check_tables($node, $how);
	$from += 600;
}
undo_quiet($node, 'at the end');
is($node->safe_psql('postgres', $all), "$count|$sum|$len", 'when all is undone');
check_tables($node, 'at the end');

# --- many of them, each with its own undo log's piece
$node->safe_psql('postgres', join '', map {
	"BEGIN; UPDATE x SET c = c + 1 WHERE k = 150 * $_ + 50; PREPARE TRANSACTION 'm$_';\n" } 1 .. 9);
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_zheap_undo'), '<', 20, 'logs are reused at once');
kill_server($node);
ok(start_after_kill($node), 'start with many');
$node->safe_psql('postgres', join '', map { ($_ % 2 ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'm$_';\n" } 1 .. 9);
$sum += 5;
is($node->safe_psql('postgres', $all), "$count|$sum|$len", 'half of them committed');
undo_quiet($node, 'of many');
$node->stop;
log_is_clean($node);
done_testing();
