# While an abort waits to be rolled back, row locks in the chain of a page's shared
# xact slot are discarded before the chain is over: a new one names a record that is
# gone, and may lie in its place, or before that on the undo page.  That is no damage.
# Then the worker that rolls back a change of that chain is told to end while it reads
# it: that is no failure.
# Needs a server with assertions (undo_debug.h).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('chaingone', conf => q{
autovacuum = off
fsync = off
zheap.rollback_paused = on
zheap.discard_naptime = 10ms
zheap.undo_log_rest_size = 256kB
zheap.debug_set = 'shared-slot=1,undo-page-bytes=300,look-up=1'
});
$node->start;
needs_assertions($node);
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE p (id int PRIMARY KEY, v int) USING zheap;
INSERT INTO p SELECT g, 0 FROM generate_series(1, 20) g;
CREATE TABLE pad (id int PRIMARY KEY, t text) USING zheap;
CREATE TABLE other (a int) USING zheap;
INSERT INTO other SELECT 1 FROM generate_series(1, 50);
SELECT id FROM p WHERE id = 1 FOR UPDATE;
SET zheap.rollback_foreground_size = 0;
BEGIN; UPDATE other SET a = 2; ROLLBACK;
CREATE PROCEDURE undo_comes_round(times int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..times LOOP
		INSERT INTO pad VALUES (0, '');
		FOR j IN 1..12 LOOP UPDATE pad SET t = j WHERE id = 0; END LOOP;
		DELETE FROM pad;
		COMMIT;
	END LOOP;
END $$});
srand(7);
my $locker = session($node);
my $failed = '';
for my $i (1 .. 300)
{
	ask($locker, 'CALL undo_comes_round(' . int(rand(13)) . ')');
	for (1 .. 2)
	{
		my $id = 1 + int(rand(20));
		my $got = ask($locker, "SELECT id FROM p WHERE id = $id FOR UPDATE");
		$failed .= "round $i: $got\n" if $got ne $id;
	}
	last if $failed;
	select(undef, undef, undef, 0.03);
}
is($failed, '', 'rows are locked, whatever became of the records below');
is($node->safe_psql('postgres', "SELECT status FROM zheap_page_slots('p', 0) WHERE id = 255"), 'shared', 'through the shared xact slot');
cmp_ok($node->safe_psql('postgres', 'SELECT h::text::int8 - u::text::int8 FROM zheap_horizons()'), '>', 1000, 'undo was discarded above U');

ask($locker, 'SET zheap.rollback_foreground_size = 0; BEGIN; DELETE FROM p WHERE id = 3; ROLLBACK');
finish_session($locker);
order_point($node, 'long-walk', 'wait');
$node->safe_psql('postgres', 'ALTER SYSTEM SET zheap.rollback_paused = off; SELECT pg_reload_conf()');
ok(wait_at_point($node, 'long-walk'), 'the chain is read');
is($node->safe_psql('postgres', q{
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE backend_type = 'undo rollback worker'}), 't', '... by a rollback worker, which is told to end');
leave_point($node, 'long-walk');
undo_quiet($node, 'at the end');
is($node->safe_psql('postgres', 'SELECT count(*) FROM p'), '20', 'what aborted was rolled back');
ok(check_tables($node, 'at the end'), 'tables are sound');
$node->stop;
log_is_clean($node);
done_testing();
