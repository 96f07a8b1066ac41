# Rows that end without an xact slot, on a page of which prepared transactions
# have all: through crashes with wal_consistency_checking, on a standby with an
# old snapshot and after a failover, decoded, rewritten under an old snapshot,
# and by many clients at once.  A heap twin, changed by the same transactions,
# has the answer each time.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);
use ZheapTest;

my $node = zheap_node('shared', allows_streaming => 1, conf => q{
autovacuum = off
wal_level = logical
wal_consistency_checking = 'zheap'
max_prepared_transactions = 40
max_connections = 40
restart_after_crash = on
lock_timeout = 180s
});
$node->start;
my $asserts = $node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE z (k int PRIMARY KEY, c int, t text) USING zheap;
CREATE TABLE h (k int PRIMARY KEY, c int, t text);
CREATE VIEW differs AS (TABLE z EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE z)});

# Both tables anew, z in full pages.
sub fresh
{
	$node->safe_psql('postgres', q{
TRUNCATE z, h;
INSERT INTO z SELECT g, 0, repeat('x', 22) FROM generate_series(1, 400) g;
INSERT INTO h TABLE z});
	return;
}

# The same statements for z and for h; T stands for the table.
sub both
{
	my ($sql) = @_;
	return join '', map { my $t = $_; (my $s = $sql) =~ s/\bT\b/$t/g; "$s;\n" } qw(z h);
}

sub prepare
{
	my ($gid, $sql) = @_;
	$node->safe_psql('postgres', "BEGIN;\n" . both($sql) . "PREPARE TRANSACTION '$gid'");
	return;
}

# One after the other they take all xact slots of the first page.
sub fill_page
{
	prepare("f$_", "UPDATE T SET c = c + 1 WHERE k = $_") for 1 .. 10;
	return;
}

sub end_fill
{
	my ($server) = @_;
	$server->safe_psql('postgres', ($_ % 2 ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'f$_'") for 1 .. 10;
	return;
}

sub ended
{
	my ($server) = @_;
	return $server->safe_psql('postgres', q{SELECT count(*) FROM zheap_page_items('z', 0) WHERE xact_slot = 255});
}

sub same
{
	my ($server, $what) = @_;
	return is($server->safe_psql('postgres', 'SELECT count(*) FROM differs'), '0', "$what: z has what h has");
}

my @changes = (
	q{UPDATE T SET t = 'longer than it was, by far' || c WHERE k = %d},
	q{DELETE FROM T WHERE k = %d},
	q{UPDATE T SET k = -k, c = 7 WHERE k = %d},
	q{SAVEPOINT s; DELETE FROM T WHERE k = %d; ROLLBACK TO s; UPDATE T SET t = 'b', c = c - 1 WHERE k = %1$d});

# ---- crashes

for my $fpw ('on', 'off')
{
	set_conf($node, full_page_writes => $fpw);
	fresh();
	$node->safe_psql('postgres', 'VACUUM z; CHECKPOINT');
	my $old = session($node);
	my $sum = 'SELECT count(*), sum(k), sum(c), sum(length(t)) FROM ';
	my $was = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; ${sum}h");

	prepare("p$_", sprintf($changes[ $_ % 4 ], 10 + $_)) for 1 .. 20;
	cmp_ok(ended($node), '>=', 10, "full_page_writes $fpw: most of 20 prepared transactions had no xact slot");
	is(ask($old, "${sum}z"), $was, 'an old snapshot sees none of them');
	same($node, '20 prepared');
	check_tables($node, '20 prepared');

	# and one that is lost
	my $lost = session($node);
	ask($lost, 'BEGIN; ' . both(q{UPDATE T SET c = -1 WHERE k BETWEEN 60 AND 70; DELETE FROM T WHERE k BETWEEN 71 AND 75}));
	$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
	kill_server($node);
	finish_session($_) for $old, $lost;
	ok(start_after_kill($node), 'recovered');
	same($node, 'recovered');
	check_tables($node, 'recovered');

	my @order = $fpw eq 'on' ? 1 .. 20 : reverse 1 .. 20;
	for my $i (@order)
	{
		$node->safe_psql('postgres', ($i % 3 == 0 ? 'ROLLBACK' : 'COMMIT') . " PREPARED 'p$i'");
		same($node, "the end of $i") if $i % 5 == 0;
	}
	$node->safe_psql('postgres', both(q{UPDATE T SET c = c + 10 WHERE k BETWEEN 5 AND 80}));
	same($node, 'changed again');
	kill_server($node);
	ok(start_after_kill($node), 'recovered again');
	same($node, 'recovered again');
	undo_quiet($node, "full_page_writes $fpw");
	$node->safe_psql('postgres', 'VACUUM z');
	is(ended($node), '0', 'VACUUM leaves none');
	check_tables($node, "full_page_writes $fpw");
}
set_conf($node, full_page_writes => 'on');

# a process dies while it ends rows so, while they are rolled back and redone
SKIP:
{
	skip 'the server has no assertions', 1 if !$asserts;
	my $change = both(q{UPDATE T SET t = 'never', c = -5 WHERE k BETWEEN 20 AND 30; DELETE FROM T WHERE k BETWEEN 31 AND 40});
	fresh();
	fill_page();
	for my $point (qw(prepared inserted end-taken-back page-rolled-back redo-undo-page))
	{
		my $s = session($node);
		my $pid = ask($s, 'SELECT pg_backend_pid()');
		my $checkpointer = ask($s, q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
		my $file;
		ask($s, "BEGIN; $change") if $point =~ /back/;
		if ($point eq 'redo-undo-page')
		{
			ask($s, "BEGIN; $change");
			$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
			$file = order_point($node, $point, 'crash');
			kill_server($node);
			ok(!$node->start(fail_ok => 1), "$point: recovery dies");
			unlink $node->data_dir . '/postmaster.pid';
			ok($node->start(fail_ok => 1), 'and begins again');
		}
		else
		{
			$file = order_point($node, $point, 'crash', $pid);
			ask($s, $point =~ /back/ ? 'ROLLBACK' : "BEGIN; $change COMMIT");
		}
		finish_session($s);
		ok(!-e $file, "$point was reached") or unlink $file;
		# the server restarts, if it was not started above
		for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
		{
			last if !kill 0, $checkpointer;
			usleep(100_000);
		}
		wait_until_up($node) or die "the server did not come back after $point";
		same($node, $point);
		check_tables($node, $point);
	}
	end_fill($node);
	same($node, 'after all');
}

# ---- decoding

SKIP:
{
	skip 'test_decoding is not installed', 1
	  if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_ls_dir((SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR')) f WHERE f = 'test_decoding.so'}) eq '0';
	for my $identity ('DEFAULT', 'FULL')
	{
		fresh();
		$node->safe_psql('postgres', both("ALTER TABLE T REPLICA IDENTITY $identity"));
		# it waits for those that are open
		$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('d', 'test_decoding')});
		fill_page();
		for my $i (1 .. 12)
		{
			$node->safe_psql('postgres', 'BEGIN; ' . both(sprintf($changes[ $i % 4 ], 20 + $i)) . ($i == 12 ? 'ROLLBACK' : 'COMMIT'));
		}
		cmp_ok(ended($node), '>', 0, "identity $identity: rows ended without an xact slot");
		my @decoded = split /\n/, $node->safe_psql('postgres', q{SELECT data FROM pg_logical_slot_get_changes('d', NULL, NULL, 'include-xids', '0', 'skip-empty-xacts', '1')});
		my @z = map { s/public\.z:/T:/r } grep { /public\.z:/ } @decoded;
		my @h = map { s/public\.h:/T:/r } grep { /public\.h:/ } @decoded;
		cmp_ok(scalar(@h), '>=', 11, 'the changes of h are decoded');
		is(join("\n", @z), join("\n", @h), 'and those of z are the same');
		$node->safe_psql('postgres', q{SELECT pg_drop_replication_slot('d')});
		end_fill($node);
	}
}

# ---- rewritten under an old snapshot

for my $rewrite ('VACUUM FULL z', 'CLUSTER z USING z_pkey', q{ALTER TABLE z ADD v int DEFAULT 3; ALTER TABLE z DROP v; VACUUM FULL z})
{
	fresh();
	fill_page();
	my $old = session($node);
	ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_am');
	$node->safe_psql('postgres', both(q{DELETE FROM T WHERE k BETWEEN 20 AND 25; UPDATE T SET t = 'moved' WHERE k BETWEEN 26 AND 30; UPDATE T SET c = 9 WHERE k = 30}));
	cmp_ok(ended($node), '>', 0, 'rows ended without an xact slot');
	end_fill($node);
	$node->safe_psql('postgres', $rewrite);
	is(ask($old, q{SELECT count(*), sum(c), count(*) FILTER (WHERE t LIKE 'x%') FROM z}), '400|0|400', "$rewrite: the old snapshot sees its rows");
	is(ask($old, 'SELECT count(*) FROM differs'), '0', 'as those of h');
	same($node, $rewrite);
	check_tables($node, $rewrite);
	finish_session($old);
}

# ---- many clients, each with rows of its own

fresh();
my $script = $node->basedir . '/clients.sql';
append_to_file($script, q{
\set k random(0, 11)
BEGIN;
UPDATE z SET c = c + 1 WHERE k = :client_id + 1 + 16 * :k;
UPDATE h SET c = c + 1 WHERE k = :client_id + 1 + 16 * :k;
SELECT pg_sleep(0.002);
COMMIT;
});
$node->command_ok([ 'pgbench', '-n', '-c', '16', '-j', '2', '-t', '40', '-f', $script, $node->connstr('postgres') ],
	'16 clients change rows of the same pages');
same($node, 'all clients');
is($node->safe_psql('postgres', 'SELECT sum(c) FROM z'), 16 * 40, 'each change is there');
cmp_ok($node->safe_psql('postgres', q{SELECT xact_slots_shared FROM pg_stat_zheap_tables WHERE relname = 'z'}), '>', 0, 'rows were changed without an xact slot');
undo_quiet($node, 'all clients');
check_tables($node, 'all clients');

# ---- a standby with an old snapshot, and its promotion

fresh();
$node->safe_psql('postgres', 'VACUUM z');
my $standby = zheap_standby($node, feedback => 1);
$node->wait_for_catchup($standby);
my $there = session($standby);
my $was = ask($there, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*), sum(k), sum(c), sum(length(t)) FROM h');
$node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_stat_replication WHERE backend_xmin IS NOT NULL');
fill_page();
$node->safe_psql('postgres', both(q{DELETE FROM T WHERE k BETWEEN 20 AND 25; UPDATE T SET t = 'moved' WHERE k BETWEEN 26 AND 30}));
prepare("p$_", sprintf($changes[ $_ % 4 ], 40 + $_)) for 1 .. 12;
cmp_ok(ended($node), '>', 0, 'rows ended without an xact slot');
$node->safe_psql('postgres', 'VACUUM z');
$node->wait_for_catchup($standby);
is(ask($there, 'SELECT count(*), sum(k), sum(c), sum(length(t)) FROM z'), $was, 'an old snapshot of the standby sees its rows');
is(ask($there, 'SET enable_seqscan = off; SELECT count(*), sum(k), sum(c), sum(length(t)) FROM z WHERE k > 0'), $was, 'by the index, too');
same($standby, 'standby');
is(ended($standby), ended($node), 'the same on both');

$node->stop('immediate');
finish_session($there);
$standby->promote;
for my $i (reverse 1 .. 12)
{
	$standby->safe_psql('postgres', ($i % 3 == 0 ? 'ROLLBACK' : 'COMMIT') . " PREPARED 'p$i'");
}
same($standby, 'promoted');
$standby->safe_psql('postgres', both(q{UPDATE T SET c = c + 1 WHERE k BETWEEN 1 AND 60 AND k > 10}));
end_fill($standby);
same($standby, 'changed again');
undo_quiet($standby, 'promoted');
$standby->safe_psql('postgres', 'VACUUM z');
is(ended($standby), '0', 'VACUUM leaves none');
check_tables($standby, 'promoted');
$standby->stop;
log_is_clean($standby);
log_is_clean($node, 'terminated by signal|not properly shut down|exited with exit code 2');
done_testing();
