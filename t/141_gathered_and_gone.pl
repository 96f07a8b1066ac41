# What was gathered of undo outlives its snapshot: under READ COMMITTED a cursor
# that gathered goes with ROLLBACK TO, and nobody says so.  The undo pages are
# then used again, and another record of a shared transaction slot stands where a
# gathered one was.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('gone', conf => q{
autovacuum = off
fsync = off
zheap.discard_naptime = '50ms'
zheap.debug_set = 'gather=5,gather-piece=2,shared-slot=1,rest-size=24'
});
$node->start;
needs_assertions($node);
$node->safe_psql('postgres', q{CREATE EXTENSION zheap_am;
CREATE TABLE y (id int, v int) USING zheap; INSERT INTO y SELECT g, 0 FROM generate_series(1, 100) g;
CREATE TABLE f (id int, v int) USING zheap; INSERT INTO f SELECT g, 0 FROM generate_series(1, 2000) g});

# logs with so much undo that they are cut and begin anew
sub begin_anew
{
	$node->safe_psql('postgres', 'UPDATE f SET v = v + 1') foreach 1 .. 3;
	return $node->poll_query_until('postgres',
		'SELECT max(used_blocks) <= 1 FROM pg_stat_zheap_undo');
}

# the place of the record by which a row was deleted, the last one of its log
sub place
{
	return $node->safe_psql('postgres',
		q{SELECT string_agg(s.urp::text, ' ' ORDER BY s.urp::text) FROM zheap_page_slots('y', 0) s});
}

ok(begin_anew(), 'no undo');
my $s = session($node);
ask($s, 'BEGIN; SAVEPOINT a; DECLARE c CURSOR FOR SELECT * FROM y');
$node->safe_psql('postgres', 'DELETE FROM y WHERE id = 5');
my $before = place();
is(ask($s, 'FETCH 1 FROM c'), '1|0', 'gathered');
ask($s, 'ROLLBACK TO a');
ok(begin_anew(), 'that undo is gone');
my $w = session($node);
ask($w, 'BEGIN; DELETE FROM y WHERE id = 6');
is(place(), $before, 'another record at the same place');
my $look = 'SELECT count(*), count(*) FILTER (WHERE id = 6) FROM y';
is(ask($s, $look), '99|1', 'a delete in progress is not done');
is($node->safe_psql('postgres', $look), '99|1', 'nor for others');
finish_session($_) foreach $w, $s;
ok(check_tables($node, 'both'), 'pages are sound');
$node->stop;
log_is_clean($node);
done_testing();
