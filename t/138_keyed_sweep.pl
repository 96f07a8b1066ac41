# Keys that only rise and change in place: nobody comes to the old entries again
# but VACUUM.  It deletes those of rows that are changed all the time and of a few
# rows on one page of many; single rows of a page lose their marks; autovacuum
# comes for them, and by itself the index gets to the size of a fresh one.  The
# planner doesn't walk over those that a snapshot needs.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $rows = 20000;
my $node = zheap_node('sweep', conf => "autovacuum = off\nfsync = off\nzheap.update_indexed_in_place = on\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am;' . keyed_allow());

# each a transaction of its own
sub raise_keys
{
	my ($table, $n, @ids) = @_;
	$node->safe_psql('postgres', join '', map { "UPDATE $table SET a = nextval('rise') WHERE id = $ids[$_ % @ids];\n" } 1 .. $n);
	return;
}
# pages of the index that hold entries
sub leaves { return $node->safe_psql('postgres', "SELECT leaf_pages FROM pgstatindex('$_[0]')") }
sub marked
{
	my ($table) = @_;
	return $node->safe_psql('postgres', qq{SELECT string_agg(lp::text, ' ' ORDER BY lp) FROM zheap_page_items('$table', 0) WHERE 'stale' = ANY (flags) AND lp <= 3});
}
sub tick { $node->safe_psql('postgres', 'CREATE TABLE tick (); DROP TABLE tick'); return; }

$node->safe_psql('postgres', qq{
CREATE EXTENSION pgstattuple;
CREATE SEQUENCE rise START 1000000;
CREATE TABLE few (id int PRIMARY KEY, a int, n int) USING zheap WITH (autovacuum_enabled = off);
INSERT INTO few SELECT g, g, 0 FROM generate_series(1, $rows) g;
CREATE INDEX few_a ON few (a);
VACUUM few;});
$node->safe_psql('postgres', "CALL keyed_allow('few')");
my $fresh = leaves('few_a');
my $s = session($node);
ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_am');
raise_keys('few', 3000, 1, 2, 3);
$node->safe_psql('postgres', 'VACUUM few');
cmp_ok(leaves('few_a'), '>', $fresh + 5, 'the snapshot keeps them');
cmp_ok($node->safe_psql('postgres', q{SELECT pg_sleep(1); SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'few'}), '>=', 2500, 'and autovacuum is told of them');
$node->safe_psql('postgres', 'ANALYZE few');
cmp_ok($node->safe_psql('postgres', q{SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'few'}), '>=', 2500, 'by ANALYZE, too');
# the planner asks where the index ends: at an entry that the snapshot needs
$node->safe_psql('postgres', q{SET enable_seqscan = off; UPDATE few SET a = nextval('rise') WHERE a <= 5000});
my ($buffers) = $node->safe_psql('postgres', q{EXPLAIN SELECT FROM few WHERE a > 5; EXPLAIN (BUFFERS) SELECT FROM few WHERE a > 5}) =~ /Planning:\n +Buffers: shared hit=(\d+)\n*\z/;
ok(defined $buffers && $buffers < 30, 'the planner looks at few of them: ' . ($buffers // 'none'));
# row 1 has changed since, for ever
ask($s, 'COMMIT; BEGIN; UPDATE few SET a = a + 1 WHERE id = 1');
tick();
$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON) few');
cmp_ok(leaves('few_a'), '<=', $fresh + 2, 'VACUUM deletes those of three rows, one of them in progress');
# its transaction holds the stamp's horizon
ask($s, 'ROLLBACK');
tick();
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	last if marked('few') ne '1 2 3';
	select undef, undef, undef, 0.1;
	tick();
	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON) few');
}
is(marked('few'), '1', 'and the marks of the other two');
finish_session($s);
# too little to be swept: told as nothing, or autovacuum comes again and again
$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON) few');
raise_keys('few', 5, 11 .. 15);
$node->safe_psql('postgres', 'VACUUM few');
is($node->safe_psql('postgres', q{SELECT pg_sleep(1); SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'few'}), "\n0", 'a few entries that stay bring no autovacuum');
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(a), sum(n) FROM few WHERE a >= 0'),
	$node->safe_psql('postgres', 'SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(a), sum(n) FROM few WHERE a >= 0'), 'all rows by index');
# no VACUUM but automatic ones
raise_keys('few', 6000, 4, 5, 6);
$node->append_conf('postgresql.conf', "autovacuum = on\nautovacuum_naptime = 1");
$node->reload;
$node->safe_psql('postgres', 'ALTER TABLE few SET (autovacuum_enabled = on)');
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	last if leaves('few_a') <= 1.2 * $fresh;
	select undef, undef, undef, 0.1;
}
cmp_ok(leaves('few_a'), '<=', 1.2 * $fresh, 'an idle server gets to the size of a fresh index by itself');
$node->append_conf('postgresql.conf', 'autovacuum = off');
$node->reload;
check_tables($node, 'at the end');
$node->stop;
done_testing();
