# Spilled rows on a standby: an old snapshot there reads them, through a crash
# of the primary too; without feedback it is cancelled, and never reads
# something wrong; a new primary goes on.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('primary', allows_streaming => 1, conf => q{
wal_consistency_checking = 'zheap'
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE z (id int PRIMARY KEY, k int, t text) USING zheap;
CREATE INDEX z_k ON z (k);
CREATE TABLE hot (id int PRIMARY KEY, n int) USING zheap;
INSERT INTO hot VALUES (1, 0);
INSERT INTO z SELECT g, g, repeat('a', 80) FROM generate_series(1, 2000) g;
});
my $standby = zheap_standby($node, slot => 'standby', feedback => 1);
$node->wait_for_catchup($standby);

sub spilled
{
	my ($where) = @_;
	return $where->safe_psql('postgres', q{
SELECT count(*) FROM generate_series(0, pg_relation_size('z') / 8192 - 1) b,
	zheap_page_items('z', b) WHERE state = 'spilled'});
}

my $digest = 'SELECT count(*), sum(hashtextextended(z::text, 0)::numeric) FROM z';
my @ways = (
	'SET enable_seqscan = on; SET enable_indexscan = off; SET enable_bitmapscan = off',
	'SET enable_seqscan = off; SET enable_indexscan = on; SET enable_bitmapscan = off',
	'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_bitmapscan = on');

sub views
{
	my ($s) = @_;
	return join "\n", map { ask($s, $_), ask($s, "$digest WHERE k > 0") } @ways;
}

# --- with feedback: the standby's snapshot is what rows are spilled for
ok($node->poll_query_until('postgres',
	'SELECT count(*) = 1 FROM pg_replication_slots WHERE xmin IS NOT NULL AND active'), 'feedback');
my $old = session($standby);
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
my $before = views($old);
like($before, qr/2000\|/, 'snapshot on the standby');
$node->safe_psql('postgres', q{
DELETE FROM z WHERE id % 2 = 0;
UPDATE z SET k = k + 5000 WHERE id % 4 = 1;
INSERT INTO z SELECT g, g, repeat('b', 80) FROM generate_series(10001, 11200) g;
BEGIN; INSERT INTO z SELECT g, g, repeat('c', 80) FROM generate_series(12001, 12200) g; ROLLBACK;
});
$node->wait_for_catchup($standby);
cmp_ok(spilled($node), '>', 700, 'spilled on the primary');
is(spilled($standby), spilled($node), 'and on the standby');
is(views($old), $before, 'old snapshot of the standby reads spilled rows');
is(tables_digest($standby, ['z']), tables_digest($node, ['z']), 'new ones see the new rows');

# --- snapshots of a standby jump over the updates of a hot row
my @ages = ($old);
for my $n (0, 1000, 2000)
{
	$node->safe_psql('postgres', q{
DO $$ BEGIN FOR i IN 1..1000 LOOP UPDATE hot SET n = n + 1; COMMIT; END LOOP; END $$});
	$node->wait_for_catchup($standby);
	is(ask($ages[-1], 'SELECT n FROM hot'), $n, "the standby's snapshot of update $n sees it");
	push @ages, session($standby);
	is(ask($ages[-1], 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT n FROM hot'), $n + 1000,
		'a new one the last');
}
is(join(' ', map { ask($_, 'SELECT n FROM hot') } @ages), '0 1000 2000 3000', 'and all later on');
cmp_ok($node->safe_psql('postgres',
	q{SELECT count(*) FROM zheap_page_slots('hot', 0) s, zheap_undo_records('hot', 0, s.id) WHERE 'jump' = ANY (flags)}), '>', 50,
	'there were jumps');
finish_session($_) for @ages[1 .. 3];
$node->safe_psql('postgres', 'VACUUM (TRUNCATE off) z');
$node->wait_for_catchup($standby);
is(views($old), $before, 'still, after VACUUM on the primary');

# --- the primary crashes; its slot remembers the standby's snapshot
$node->safe_psql('postgres', 'CHECKPOINT');
kill_server($node);
ok(start_after_kill($node), 'primary recovered');
ok($node->poll_query_until('postgres',
	'SELECT count(*) = 1 FROM pg_replication_slots WHERE xmin IS NOT NULL AND active'), 'feedback again');
is(views($old), $before, 'old snapshot of the standby outlives the primary\'s crash');
$node->safe_psql('postgres',
	"INSERT INTO z SELECT g, g, repeat('d', 80) FROM generate_series(13001, 13300) g");
$node->wait_for_catchup($standby);
is(views($old), $before, 'and spilling after it');
ask($old, 'COMMIT');

# --- the old snapshot ends: the primary may free, and does
ok($node->poll_query_until('postgres', q{
SELECT coalesce(max(age(xmin)), 0) < 3 FROM pg_replication_slots}), 'feedback moved on');
$node->safe_psql('postgres', 'SELECT txid_current(); VACUUM (TRUNCATE off) z; VACUUM (TRUNCATE off) z');
is(spilled($node), '0', 'nothing is left spilled');
$node->wait_for_catchup($standby);
is(spilled($standby), '0', 'nor on the standby');

# --- without feedback
set_conf($standby, hot_standby_feedback => 'off', max_standby_streaming_delay => '-1');
ok($node->poll_query_until('postgres',
	'SELECT count(*) = 1 FROM pg_replication_slots WHERE xmin IS NULL'), 'no feedback');
my $here = session($node);
ask($here, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM z LIMIT 1');
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ');
$before = views($old);
$node->safe_psql('postgres', q{
DELETE FROM z WHERE id > 10000 AND id % 2 = 1;
INSERT INTO z SELECT g, g, repeat('e', 80) FROM generate_series(20001, 20500) g;
});
$node->wait_for_catchup($standby);
cmp_ok(spilled($standby), '>', 200, 'spilled again');
is(views($old), $before, 'a snapshot that the primary does not know');
# the primary's own snapshot goes: what the standby's wants is freed
set_conf($standby, max_standby_streaming_delay => '100ms');
ask($here, 'COMMIT');
$node->safe_psql('postgres', 'SELECT txid_current(); VACUUM (TRUNCATE off) z');
is(spilled($node), '0', 'freed on the primary');
$node->wait_for_catchup($standby);
is(spilled($standby), '0', 'freed on the standby');
like(ask($old, "$digest"), qr/conflict with recovery|terminating connection|current transaction is aborted|$lost/,
	'the old snapshot was cancelled');
finish_session($_) for $old, $here;

# --- the standby takes over, with rows spilled and their enders on the pages
$here = session($node);
ask($here, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM z LIMIT 1');
$node->safe_psql('postgres', q{
DELETE FROM z WHERE id % 3 = 0;
INSERT INTO z SELECT g, g, repeat('f', 80) FROM generate_series(30001, 30700) g;
});
$node->wait_for_catchup($standby);
my $rows = tables_digest($node, ['z']);
cmp_ok(spilled($standby), '>', 100, 'spilled before the promotion');
ask($here, 'COMMIT');
finish_session($here);
$node->stop('immediate');
$standby->promote;
is(tables_digest($standby, ['z']), $rows, 'rows on the new primary');
$standby->safe_psql('postgres', "INSERT INTO z SELECT g, g, repeat('g', 80) FROM generate_series(40001, 40500) g; VACUUM (TRUNCATE off) z");
undo_quiet($standby, 'on the new primary');
$standby->safe_psql('postgres', 'VACUUM (TRUNCATE off) z');
is(spilled($standby), '0', 'it frees what was spilled');
check_tables($standby, 'on the new primary');
log_is_clean($standby);
$standby->stop;
done_testing();
