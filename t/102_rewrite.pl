# VACUUM FULL and CLUSTER across processes and servers: old snapshots on the
# primary and on a standby, the conflict where there is no feedback, kills,
# wal_level = minimal, what is reported, relfrozenxid.
use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

# a default that no rewrite keeps inline
my $long = join('', map { md5_hex($_) } 1 .. 100);

my $node = zheap_node('primary', allows_streaming => 1, conf => q{
wal_consistency_checking = 'zheap'
autovacuum = off
wal_keep_size = 1GB
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE other (a int);
CREATE TABLE r (id int PRIMARY KEY, k int, t text, big text) USING zheap;
ALTER TABLE r ALTER big SET STORAGE EXTERNAL;
CREATE INDEX r_k ON r (k);
INSERT INTO r SELECT g, -g, 'first', CASE WHEN g % 10 = 0 THEN repeat('b', 3000) END FROM generate_series(1, 1000) g;
ALTER TABLE r ADD late text DEFAULT 'late';
} . "ALTER TABLE r ADD long text DEFAULT '$long';");
my $standby = zheap_standby($node, feedback => 1);

my $look = q{SELECT count(*), sum(id), sum(k), sum(length(t)), sum(length(big)), count(late),
	sum(hashtextextended(r::text, 0)::numeric) FROM r};
my $by_index = q{SELECT count(*), sum(id) FROM r WHERE k BETWEEN -700 AND -400};
my $changes = q{
UPDATE r SET t = t || '+' WHERE id % 2 = 0;
UPDATE r SET big = repeat('c', 4000), late = 'own' WHERE id % 20 = 0;
UPDATE r SET big = NULL WHERE id % 50 = 0;
DELETE FROM r WHERE id % 9 = 0;
UPDATE r SET k = k - 5000 WHERE id % 13 = 0;
INSERT INTO r SELECT g, g, 'new', repeat('n', 2500) FROM generate_series(2001 + (SELECT count(*) FROM other), 2020 + (SELECT count(*) FROM other)) g;
INSERT INTO other SELECT generate_series(1, 20);
BEGIN; UPDATE r SET t = 'never', k = 0; DELETE FROM r WHERE id < 500; ROLLBACK;
};

# A snapshot without a lock on the table; what it sees of it, without keeping one.
sub snapshot
{
	my $s = session($_[0]);
	ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM other;');
	return $s;
}

sub look
{
	my ($s) = @_;
	return ask($s, "SAVEPOINT l; $look; SET LOCAL enable_seqscan = off; $by_index; ROLLBACK TO l; RELEASE l;");
}

# --- old snapshots on both servers, over every way to rewrite, twice
$node->wait_for_catchup($standby);
my (@on_primary, @on_standby, @want);
for my $command ('VACUUM FULL r', 'SET enable_seqscan = off; CLUSTER r USING r_k', 'SET enable_indexscan = off; CLUSTER r USING r_pkey')
{
	push @on_primary, snapshot($node);
	push @on_standby, snapshot($standby);
	push @want, look($on_primary[-1]);
	is(look($on_standby[-1]), $want[-1], 'both servers agree');
	ok($node->poll_query_until('postgres',
		'SELECT count(*) = 1 FROM pg_stat_replication WHERE backend_xmin IS NOT NULL'), 'feedback');
	$node->safe_psql('postgres', $changes);
	$node->safe_psql('postgres', "$command;");
	$node->wait_for_catchup($standby);
	is(look($on_primary[$_]), $want[$_], "$command: snapshot $_ on the primary") for 0 .. $#want;
	is(look($on_standby[$_]), $want[$_], "$command: snapshot $_ on the standby") for 0 .. $#want;
	is($standby->safe_psql('postgres', $look), $node->safe_psql('postgres', $look), 'and what is new');
	check_tables($node, $command);
}

# --- they still do after more changes and rollbacks on the new pages
$node->safe_psql('postgres', $changes);
$node->wait_for_catchup($standby);
is(look($on_primary[$_]), $want[$_], "after changes: snapshot $_ on the primary") for 0 .. $#want;
is(look($on_standby[$_]), $want[$_], "after changes: snapshot $_ on the standby") for 0 .. $#want;

# --- what VACUUM FULL says under an old snapshot, and without
sub counts
{
	my ($rc, $out, $err) = $node->psql('postgres', $_[0]);
	return $err =~ /found (\d+) removable, (\d+) nonremovable row versions.*\n.*?(\d+) dead row versions/ ? "$1 $2 $3" : $err;
}
$node->safe_psql('postgres', q{CREATE TABLE counted (id int PRIMARY KEY, t text) USING zheap;
INSERT INTO counted SELECT g, 'x' FROM generate_series(1, 1000) g;
DELETE FROM counted WHERE id <= 100;
UPDATE counted SET t = 'y' WHERE id > 900;
UPDATE counted SET id = id + 1000 WHERE id > 980;});
is(counts('VACUUM (FULL, VERBOSE) counted'), '0 1020 120', 'VERBOSE with old snapshots');
# since 18 the index build doesn't correct the number where autovacuum is off
is($node->safe_psql('postgres', q{SELECT reltuples FROM pg_class WHERE relname = 'counted'}),
	$node->pg_version >= 18 ? '1020' : '900', 'live rows, or rows kept');
for my $s (@on_primary, @on_standby)
{
	ask($s, 'COMMIT');
	finish_session($s);
}
set_conf($standby, hot_standby_feedback => 'off', max_standby_streaming_delay => '100ms');
ok($node->poll_query_until('postgres',
	'SELECT count(*) = 0 FROM pg_stat_replication WHERE backend_xmin IS NOT NULL'), 'no feedback any more');
is(counts('CLUSTER VERBOSE counted USING counted_pkey'), '120 900 0', 'VERBOSE without');
undo_quiet($node, 'no snapshots');
check_tables($node, 'no snapshots');

# --- without feedback the standby's snapshot is cancelled, it misses no row
my $s = snapshot($standby);
$node->safe_psql('postgres', 'DELETE FROM r WHERE id <= 300; VACUUM FULL r;');
$node->wait_for_catchup($standby);
like(look($s), qr/conflict with recovery|$lost/, 'cancelled');
finish_session($s);
is($standby->safe_psql('postgres', $look), $node->safe_psql('postgres', $look), 'a new one sees what is there');
$standby->stop;

# --- progress, while an index is being built
$node->safe_psql('postgres', q{
CREATE FUNCTION wait_a_little(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
	$$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN i; END $$;
CREATE INDEX r_slow ON r (wait_a_little(id));});
my $holder = session($node);
ask($holder, 'SELECT pg_advisory_lock(1)');
my $full = session($node);
send_sql($full, 'VACUUM FULL r');
ok($node->poll_query_until('postgres', q{
SELECT count(*) = 1 FROM pg_stat_progress_cluster WHERE phase = 'rebuilding index'}), 'progress: building indexes');
like($node->safe_psql('postgres', q{
SELECT command, heap_tuples_scanned > 500, heap_tuples_scanned = heap_tuples_written,
	heap_blks_scanned = heap_blks_total, heap_blks_total > 0 FROM pg_stat_progress_cluster}),
	qr/^VACUUM FULL\|t\|t\|t\|t$/, 'progress: rows and blocks');
ask($holder, 'SELECT pg_advisory_unlock(1)');
is(ask($full, 'SELECT 1'), '1', 'VACUUM FULL goes on');
finish_session($_) for $holder, $full;
$node->safe_psql('postgres', 'DROP INDEX r_slow');

# --- kills: after it, and in the middle
my $before = $node->safe_psql('postgres', $look);
$node->safe_psql('postgres', $changes);
$before = $node->safe_psql('postgres', $look);
$node->safe_psql('postgres', 'VACUUM FULL r');
kill_server($node);
ok(start_after_kill($node), 'start after a kill behind VACUUM FULL');
is($node->safe_psql('postgres', $look), $before, 'the rows are there');
check_tables($node, 'a kill behind VACUUM FULL');
$s = session($node);
is(ask($s, "BEGIN; UPDATE r SET t = 'never' WHERE id % 3 = 0; CLUSTER r USING r_k; DELETE FROM r WHERE id % 2 = 0; SELECT 1"), '1',
	'CLUSTER in a transaction');
$node->safe_psql('postgres', 'CHECKPOINT');
kill_server($node);
finish_session($s);
ok(start_after_kill($node), 'start after a kill in its transaction');
is($node->safe_psql('postgres', $look), $before, 'as before the transaction');
undo_quiet($node, 'after the kill');
is($node->safe_psql('postgres', $look), $before, 'and when undone');
check_tables($node, 'a kill in the transaction of CLUSTER');

# --- prepared, over a restart, both ways
for my $how ('ROLLBACK', 'COMMIT')
{
	my $changed = $node->safe_psql('postgres', qq{BEGIN; UPDATE r SET t = 'prepared' WHERE id % 7 = 0;
CLUSTER r USING r_pkey; UPDATE r SET k = k - 1 WHERE id % 5 = 0; $look; PREPARE TRANSACTION 'p'});
	kill_server($node);
	ok(start_after_kill($node), 'start with CLUSTER prepared');
	$node->safe_psql('postgres', "$how PREPARED 'p'");
	is($node->safe_psql('postgres', $look), $how eq 'COMMIT' ? $changed : $before, "$how PREPARED");
	undo_quiet($node, "$how PREPARED");
	check_tables($node, "$how PREPARED");
}

# --- relfrozenxid, which a toast table shares
my $age = q{SELECT c.relname = 'r', c.relfrozenxid <> '0' AND age(c.relfrozenxid) < 1000 FROM pg_class c
	WHERE oid IN ('r'::regclass, (SELECT reltoastrelid FROM pg_class WHERE oid = 'r'::regclass)) ORDER BY 1};
is($node->safe_psql('postgres', $age), "f|t\nt|t", 'relfrozenxid of table and toast table');
$node->safe_psql('postgres', q{CREATE TABLE plain (a int) USING zheap; INSERT INTO plain VALUES (1)});
for my $sql ('VACUUM FULL plain', 'TRUNCATE plain', 'ALTER TABLE plain ALTER a TYPE bigint',
	'ALTER TABLE plain SET ACCESS METHOD heap', 'ALTER TABLE plain SET ACCESS METHOD zheap', 'VACUUM plain')
{
	$node->safe_psql('postgres', $sql);
	is( $node->safe_psql('postgres', q{SELECT relfrozenxid <> '0' AND age(relfrozenxid) BETWEEN 0 AND 1000 FROM pg_class WHERE relname = 'plain'}),
		't', "relfrozenxid after $sql");
}
my $was = $node->safe_psql('postgres', q{SELECT relfrozenxid FROM pg_class WHERE relname = 'r'});
$node->safe_psql('postgres', 'SELECT txid_current()');
$node->safe_psql('postgres', 'VACUUM r');
cmp_ok($node->safe_psql('postgres', q{SELECT relfrozenxid FROM pg_class WHERE relname = 'r'}), '>', $was, 'VACUUM moves it on');

# --- wal_level = minimal
$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0\n");
for my $threshold ('0', '64MB')		# sync the file, or log its pages at commit
{
	$node->append_conf('postgresql.conf', "wal_skip_threshold = $threshold\n");
	$node->restart;
	$s = snapshot($node);
	my $want = look($s);
	$node->safe_psql('postgres', $changes);
	$node->safe_psql('postgres', 'VACUUM FULL r');
	is(look($s), $want, "minimal, $threshold: old snapshot");
	$before = $node->safe_psql('postgres', $look);
	kill_server($node);
	finish_session($s);
	ok(start_after_kill($node), "minimal, $threshold: start after a kill");
	is($node->safe_psql('postgres', $look), $before, "minimal, $threshold: the rows are there");
	undo_quiet($node, "minimal, $threshold");
	check_tables($node, "minimal, $threshold");
}
$node->stop;
log_is_clean($_) for $node, $standby;
done_testing();
