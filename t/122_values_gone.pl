# VACUUM FULL, CLUSTER and CREATE INDEX look at versions of rows that only an
# old snapshot sees.  Here that snapshot ends after such a version was judged,
# and undo is discarded, before its large value is fetched, which was spilled:
# nobody needs the version any more, so that is no error.  A heap twin has the
# same rows.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('primary', conf => "autovacuum = off\n");
$node->start;
plan skip_all => 'needs points of assert builds'
  if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE FUNCTION val(seed int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT string_agg(md5(seed || '.' || g), '') FROM generate_series(1, 250) g $$;
});

# Rows whose values were replaced, deleted and moved under the snapshot of the
# session that is returned, and spilled.
sub spilled_rows
{
	for my $name ('g', 'h')
	{
		my $am = $name eq 'g' ? 'zheap' : 'heap';
		$node->safe_psql('postgres', qq{
DROP TABLE IF EXISTS $name;
CREATE TABLE $name (id int PRIMARY KEY, k int, big text) USING $am;
ALTER TABLE $name ALTER big SET STORAGE EXTERNAL;
CREATE INDEX ${name}_k ON $name (k);
CREATE INDEX ${name}_big ON $name (md5(big));
INSERT INTO $name SELECT g, g, val(g) FROM generate_series(1, 30) g;});
	}
	my $old = session($node);
	ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	for my $name ('h', 'g')
	{
		$node->safe_psql('postgres', qq{
UPDATE $name SET big = val(100 + id) WHERE id <= 10;
DELETE FROM $name WHERE id BETWEEN 11 AND 20;
UPDATE $name SET big = val(100 + id), k = k + 100 WHERE id > 20;});
		# their chunks make room for others
		$node->safe_psql('postgres', join "\n",
			map { "UPDATE $name SET big = val($_) WHERE id < 4;" } 200 .. 260);
	}
	cmp_ok($node->safe_psql('postgres', q{
SELECT count(*) FROM pg_class c, generate_series(0, pg_relation_size(c.reltoastrelid) / 8192 - 1) b,
	zheap_page_items(c.reltoastrelid, b) WHERE c.relname = 'g' AND state = 'spilled'}), '>=', 30, 'chunks were spilled');
	return $old;
}

for my $case (
	[ 'rewrite-row-judged', 'VACUUM FULL g' ],
	[ 'rewrite-moved-rows', 'VACUUM FULL g' ],
	[ 'rewrite-row-judged', 'SET enable_seqscan = off; CLUSTER g USING g_pkey' ],
	[ 'rewrite-sort-judged', 'SET enable_indexscan = off; CLUSTER g USING g_big' ],
	[ 'index-version-judged', 'CREATE INDEX ON g (length(big)) WHERE md5(big) > \'0\'' ],
	[ 'index-version-judged', 'CREATE INDEX ON g USING hash (big)' ])
{
	my ($point, $command) = @$case;
	my $old = spilled_rows();
	my $xid = $node->safe_psql('postgres', 'SELECT pg_current_xact_id()');
	order_point($node, $point, 'wait');
	my $s = session($node);
	send_sql($s, $command);
	ok(wait_at_point($node, $point), "$command: judged");
	ask($old, 'COMMIT');
	finish_session($old);
	ok($node->poll_query_until('postgres', "SELECT h >= '$xid' FROM zheap_horizons()"),
		'the old versions are needed no more');
	leave_point($node, $point);
	is(ask($s, 'SELECT count(*), count(DISTINCT md5(big)) FROM g'), '20|18', 'it succeeds');
	finish_session($s);
	is($node->safe_psql('postgres', q{
SELECT count(*) FROM ((TABLE g EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE g)) d}),
		'0', 'zheap has what heap has');
	check_tables($node, $command);
}
$node->stop;
log_is_clean($node);
done_testing();
