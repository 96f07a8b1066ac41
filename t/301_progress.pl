# Progress of VACUUM and ANALYZE as another session sees it, block counts that
# fit the table, and autovacuum that stays asleep while rows change in place.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('progress', conf => q{
autovacuum_naptime = 1
autovacuum_vacuum_threshold = 10
autovacuum_vacuum_scale_factor = 0
autovacuum_analyze_threshold = 1000000
log_autovacuum_min_duration = 0});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (id int PRIMARY KEY, v int, t text) USING zheap WITH (autovacuum_enabled = off);
INSERT INTO x SELECT g, 0, repeat('t', 100) FROM generate_series(1, 5000) g;
DELETE FROM x WHERE id % 2 = 0;
CREATE TABLE calm (id int PRIMARY KEY, v int) USING zheap WITH (autovacuum_vacuum_insert_threshold = 1000000);
INSERT INTO calm SELECT g, 0 FROM generate_series(1, 500) g;
CREATE TABLE busy (id int PRIMARY KEY, v int) USING heap WITH (autovacuum_vacuum_insert_threshold = 1000000);
INSERT INTO busy SELECT g, 0 FROM generate_series(1, 500) g;
});
my $pages = $node->safe_psql('postgres', q{SELECT pg_relation_size('x') / 8192});

# slowed down by its cost delay, so that it can be watched
sub watch
{
	my ($command, $view, $condition, $what) = @_;
	my $s = session($node);
	ask($s, 'SET vacuum_cost_delay = 20; SET vacuum_cost_limit = 2');
	send_sql($s, $command);
	ok($node->poll_query_until('postgres', "SELECT EXISTS (SELECT FROM $view WHERE relid = 'x'::regclass AND $condition)"), $what);
	ask($s, 'SELECT 1');
	finish_session($s);
}
watch('VACUUM x', 'pg_stat_progress_vacuum', "phase = 'scanning heap' AND heap_blks_total = $pages AND heap_blks_scanned BETWEEN 1 AND $pages",
	'VACUUM is seen scanning');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_progress_vacuum'), 0, 'and it ends');
watch('ANALYZE x', 'pg_stat_progress_analyze', "phase = 'acquiring sample rows' AND sample_blks_total = $pages AND sample_blks_scanned BETWEEN 1 AND $pages",
	'ANALYZE is seen sampling');

# vacuum verbose says something that fits
my ($rc, $out, $err) = $node->psql('postgres', 'DELETE FROM x WHERE id < 1000; VACUUM VERBOSE x');
is($rc, 0, 'VACUUM VERBOSE');
like($err, qr/"postgres\.public\.x"|table "x"|"x"/, 'names the table');

# in place: nothing for autovacuum; heap's twin shows that it was awake
for (1 .. 3)
{
	$node->safe_psql('postgres', 'UPDATE calm SET v = v + 1');
	$node->safe_psql('postgres', 'UPDATE busy SET v = v + 1');
}
ok($node->poll_query_until('postgres', q{SELECT autovacuum_count > 0 FROM pg_stat_user_tables WHERE relname = 'busy'}), 'autovacuum comes to heap');
is($node->safe_psql('postgres', q{SELECT autovacuum_count, n_dead_tup, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'calm'}), '0|0|1500', 'and not to the table updated in place');
# deletes wake it
$node->safe_psql('postgres', 'DELETE FROM calm WHERE id > 200');
ok($node->poll_query_until('postgres', q{SELECT autovacuum_count > 0 FROM pg_stat_user_tables WHERE relname = 'calm'}), 'deletes wake it');
check_tables($node, 'at the end');
$node->stop;
log_is_clean($node);
done_testing();
