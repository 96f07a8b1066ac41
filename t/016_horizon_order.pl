# The order of horizon, scan, WAL and publication in a discard pass, and of hint
# and commit record: what each wrong order would lose, played as a sequence.
# Sequences on tuples and pages are in specs/, those around aborts in t/011_abort_sequences.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('horizons', allows_streaming => 1, conf => q{
autovacuum = off
wal_consistency_checking = 'zheap'
restart_after_crash = on
zheap.undo_log_rest_size = 256kB
wal_keep_size = 1GB
max_wal_size = 1GB
});
$node->start;
my $assertions = $node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
$node->backup('base');
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (k int PRIMARY KEY, c int, t text) USING zheap;
INSERT INTO x SELECT g, 0, repeat('x', 40) FROM generate_series(1, 1000) g;
CREATE TABLE other (a int) USING zheap;
INSERT INTO other VALUES (0);
});
my $digest = 'SELECT count(*), sum(c), sum(hashtextextended(x::text, 0)::numeric) FROM x';
my $file;

sub value { return $node->safe_psql('postgres', $_[0]) }

sub pause
{
	set_conf($node, 'zheap.rollback_paused' => $_[0], 'zheap.rollback_foreground_size' => $_[0] eq 'on' ? '0' : '256kB');
}

subtest 'a discard is published after its WAL' => sub {
	plan skip_all => 'the server has no assertions' if !$assertions;
	# dies between the WAL record and the publication, and behind it: had the
	# horizon been published first, pages would name what WAL doesn't know
	for my $point ('discard-logged', 'discard-published')
	{
		my $standby = zheap_standby($node, name => "standby_$point", backup => 'base', conf => q{
max_standby_streaming_delay = -1
hot_standby_feedback = off
});
		$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
		my $old = session($standby);
		my $rows = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $digest");
		$file = order_point($node, $point, 'crash');
		for (1 .. 400)
		{
			last if !-e $file;
			$node->psql('postgres', 'UPDATE x SET c = c + 1');
			select(undef, undef, undef, 0.1);
		}
		ok(!-e $file, "$point was reached") or unlink $file;
		wait_until_up($node) or die 'no server';
		my $now = value($digest);
		$node->safe_psql('postgres', 'UPDATE x SET c = c + 1; UPDATE x SET c = c - 1');
		# replay waits for the snapshot or has not got so far
		is(ask($old, $digest), $rows, "$point: an old snapshot of the standby reads its rows");
		ask($old, 'COMMIT');
		finish_session($old);
		is((split /\|/, value($digest))[1], (split /\|/, $now)[1], "$point: rows on the primary");
		$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
		is($standby->safe_psql('postgres', $digest), value($digest), "$point: and on the standby");
		$standby->stop;
	}
};

subtest 'a discard uses the horizon of all databases' => sub {
	$node->safe_psql('postgres', 'CREATE DATABASE elsewhere');
	$node->safe_psql('elsewhere', 'CREATE EXTENSION zheap_am; CREATE TABLE e (a int) USING zheap; INSERT INTO e VALUES (1)');
	my $snapshot = session($node, 'elsewhere');
	my $rows = ask($snapshot, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT sum(a) FROM e');
	$node->safe_psql('elsewhere', 'UPDATE e SET a = 2');
	# sessions connected here commit, abort and load the undo store
	value('UPDATE x SET c = c + 1; BEGIN; UPDATE x SET c = 0; ROLLBACK') for 1 .. 5;
	sleep 1;
	is(ask($snapshot, 'SELECT sum(a) FROM e'), $rows, 'a snapshot elsewhere keeps its undo');
	my $xid = session($node, 'elsewhere');
	ask($xid, 'BEGIN; SELECT pg_current_xact_id()');
	ask($snapshot, 'COMMIT');
	value('UPDATE x SET c = c + 1') for 1 .. 3;
	sleep 1;
	ok(value('SELECT u::text::numeric <= ' . ask($xid, 'SELECT pg_current_xact_id()') . ' FROM zheap_horizons()') eq 't',
		'U does not pass a transaction elsewhere that has no undo yet');
	is(ask($xid, 'UPDATE e SET a = 3; SELECT a FROM e'), '3', 'which then writes');
	is($node->safe_psql('elsewhere', 'SELECT a FROM e'), '2', 'unseen');
	ask($xid, 'ROLLBACK');
	is($node->safe_psql('elsewhere', 'SELECT a FROM e'), '2', 'and rolls back');
	finish_session($_) for $snapshot, $xid;
	undo_quiet($node, 'two databases');
	$node->safe_psql('postgres', 'DROP DATABASE elsewhere');
};

subtest 'the horizon is taken before the scan' => sub {
	# transactions abort while passes are made, one after the other, each left
	# to the workers, which are held back: U must not pass any of them
	pause('on');
	my $rows = value($digest);
	my $oldest;
	for my $i (1 .. 15)
	{
		my $s = session($node);
		my $xid = ask($s, "BEGIN; SELECT pg_current_xact_id(); UPDATE x SET c = -1 WHERE k BETWEEN 40 * $i AND 40 * $i + 30");
		select(undef, undef, undef, 0.02 * ($i % 5));
		ask($s, 'ROLLBACK');
		finish_session($s);
		$oldest //= $xid;
		value('UPDATE other SET a = a + 1');
		is(value("SELECT u::text::numeric <= $oldest FROM zheap_horizons()"), 't', "U stays behind the oldest of $i") if $i % 5 == 0;
	}
	is(value($digest), $rows, 'nothing of them is visible');
	pause('off');
	is(value('SELECT pg_zheap_drain_undo()'), 't', 'rolled back');
	is(value($digest), $rows, 'nor then');
};

subtest 'the two horizons answer two questions' => sub {
	# an old abort, not rolled back, keeps U low; another log discards and
	# recycles pages of younger writers, to which slots of x still point
	pause('on');
	my $rows = value($digest);
	my ($xid) = split /\n/, value('BEGIN; SELECT pg_current_xact_id(); UPDATE other SET a = -1; ROLLBACK');
	value('UPDATE x SET c = c + 1') for 1 .. 3;
	my $after = value($digest);
	# turns the ring over and over
	value('CREATE TABLE turn (a int, t text) USING zheap; INSERT INTO turn SELECT g, repeat($$t$$, 50) FROM generate_series(1, 500) g');
	# until the log of the abort has grown so big that a pass lets it rest
	for (1 .. 1000)
	{
		$node->safe_psql('postgres', join '', map { "UPDATE turn SET t = repeat('$_', 50);\n" } 1 .. 9);
		select(undef, undef, undef, 0.1);
		last if value("SELECT h::text::numeric > $xid + 20 FROM zheap_horizons()") eq 't';
	}
	is(value("SELECT u::text::numeric <= $xid, h > u FROM zheap_horizons()"), 't|t', 'U is low, H is high');
	for my $sql ($digest, "SET enable_seqscan = off; $digest WHERE k > 0")
	{
		is(value($sql), $after, 'readers of every kind do not follow into recycled pages');
	}
	value('UPDATE x SET c = c + 1 WHERE k % 2 = 0; BEGIN; UPDATE x SET c = 0; ROLLBACK; UPDATE x SET c = c - 1 WHERE k % 2 = 0');
	is(value($digest), $after, 'nor writers');
	is(value('SELECT a >= 0 FROM other'), 't', 'the old abort is invisible');
	pause('off');
	is(value('SELECT pg_zheap_drain_undo()'), 't', 'rolled back');
	is(value($digest), $after, 'the same then');
	value('DROP TABLE turn');
};

undo_quiet($node, 'at the end');
check_tables($node, 'at the end');
$node->stop;

subtest 'a commit hint waits for the commit record' => sub {
	# asynchronous commit: its record is in the WAL buffers only.  Readers set
	# what hints they may, the page is evicted; then power goes.  Without
	# checksums, with which a hint logs a page image behind the commit record,
	# and without page images, which recovery would put in the place of hints.
	# Somebody else may flush WAL in between, hence several attempts.
	my $n = PostgreSQL::Test::Cluster->new('hints');
	$n->init;
	$n->append_conf('postgresql.conf', q{
shared_preload_libraries = 'zheap_am'
autovacuum = off
shared_buffers = 1MB
full_page_writes = off
wal_writer_delay = 10s
bgwriter_lru_maxpages = 0
zheap.discard_naptime = 60s
});
	$n->start;
	$n->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE hint (k int, c int) USING zheap;
INSERT INTO hint SELECT g, 0 FROM generate_series(1, 100) g;
CREATE TABLE seen (a int) USING zheap;
CREATE TABLE filler AS SELECT g AS a, repeat('f', 500) AS b FROM generate_series(1, 6000) g;
CREATE INDEX ON filler (a);
VACUUM (FREEZE, ANALYZE) filler;
});
	my $fill = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT sum(length(b)) FROM filler WHERE a > 0';
	my $lost = 0;
	for my $attempt (1 .. 8)
	{
		$n->safe_psql('postgres', 'UPDATE hint SET c = 0; CHECKPOINT');
		$n->safe_psql('postgres', 'UPDATE hint SET c = 0');
		my $s = session($n);
		ask($s, 'SET synchronous_commit = off; BEGIN; UPDATE hint SET c = 1');
		# undo and page changes are flushed, the commit record is not
		$n->safe_psql('postgres', 'INSERT INTO seen VALUES (0)');
		ask($s, 'COMMIT');
		is(ask($s, 'SELECT sum(c) FROM hint; SELECT sum(c) FROM hint'), "100\n100", 'the commit is visible');
		ask($s, $fill) for 1 .. 2;
		kill_server($n);
		finish_session($s);
		ok(start_after_kill($n), 'start after the kill');
		my $sum = $n->safe_psql('postgres', 'SELECT sum(c) FROM hint');
		like($sum, qr/^(?:0|100)$/, 'the transaction is there as a whole or not at all');
		is($n->safe_psql('postgres', 'SELECT count(DISTINCT c) FROM hint'), '1', 'not in parts');
		$n->safe_psql('postgres', 'UPDATE hint SET c = c + 1');
		is($n->safe_psql('postgres', 'SELECT sum(c) FROM hint'), $sum + 100, 'as for writers');
		is($n->safe_psql('postgres', 'SELECT pg_zheap_drain_undo()'), 't', 'all is undone');
		is($n->safe_psql('postgres', 'SELECT sum(c) FROM hint'), $sum + 100, 'the same then');
		$lost++ if $sum eq '0';
		last if $lost;
	}
	ok($lost, 'a commit record was lost');
	$n->stop;
};
done_testing();
