# The server gives out no xids any more, because an abort that can't be rolled back
# holds the oldest one: VACUUM of a table with empty pages at its end does what it can
# without, as heap's, and the next table gets its turn.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('noxids', conf => q{
autovacuum_naptime = 1s
wal_level = replica
fsync = off
zheap.rollback_foreground_size = 0
zheap.rollback_paused = on
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE held (a int) USING zheap WITH (autovacuum_enabled = off);
CREATE TABLE h (id int, t text) USING heap WITH (autovacuum_enabled = off);
CREATE TABLE z (id int, t text) USING zheap WITH (autovacuum_enabled = off);
INSERT INTO held SELECT 1 FROM generate_series(1, 100);
INSERT INTO h SELECT g, repeat('x', 100) FROM generate_series(1, 5000) g;
INSERT INTO z TABLE h;
BEGIN; UPDATE held SET a = 2; ROLLBACK;
DELETE FROM h WHERE id > 10;
DELETE FROM z WHERE id > 10;});
$node->stop;
# a segment of the commit log begins there
command_ok([ 'pg_resetwal', '-x', 2046 << 20, '-D', $node->data_dir ], 'no xids are left');
$node->start;
my (undef, undef, $err) = $node->psql('postgres', 'DELETE FROM h');
like($err, qr/to avoid wraparound data loss/, 'a DELETE is refused');
for my $what ('h', 'z', 'z, held')
{
	is($node->psql('postgres', "VACUUM $what"), 0, "VACUUM $what");
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM z'), '10', 'the rows that are left');
is($node->safe_psql('postgres', 'SELECT count(*) FROM held WHERE a = 1'), '100', 'and what aborted');

$node->safe_psql('postgres', 'ALTER SYSTEM SET zheap.rollback_paused = off; SELECT pg_reload_conf()');
ok($node->poll_query_until('postgres', 'SELECT max(age(datfrozenxid)) < 1000000 FROM pg_database'), 'with the abort rolled back, autovacuum helps');
my $before = $node->safe_psql('postgres', q{SELECT pg_relation_size('z')});
is($node->psql('postgres', 'DELETE FROM z WHERE id = 10; VACUUM z'), 0, 'the server gives out xids again');
cmp_ok($node->safe_psql('postgres', q{SELECT pg_relation_size('z')}), '<', $before, 'and the table is truncated');
undo_quiet($node, 'at the end');
ok(check_tables($node, 'at the end'), 'tables are sound');
$node->stop;
log_is_clean($node);
done_testing();
