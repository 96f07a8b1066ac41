# A worker copies an undo page, at whose end is the run of a running transaction;
# that one writes another record there and aborts before the worker looks what
# became of it.  The last record is rolled back, too.  Needs a server with
# assertions (undo_debug.h).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('growing', conf => q{
autovacuum = off
fsync = off
zheap.rollback_paused = on
zheap.rollback_foreground_size = 0
});
$node->start;
needs_assertions($node);
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE a (i int) USING zheap;
CREATE TABLE b (i int, t text) USING zheap;
ALTER TABLE b ALTER t SET STORAGE PLAIN;});

# what is to be rolled back, so that the page is visited; then the one that runs
my $s = session($node);
ask($s, 'BEGIN; INSERT INTO a VALUES (1); ROLLBACK; BEGIN; INSERT INTO b VALUES (1, repeat($$b$$, 5000))');
order_point($node, 'undo-page-copied', 'wait');
$node->safe_psql('postgres', 'ALTER SYSTEM SET zheap.rollback_paused = off; SELECT pg_reload_conf()');
ok(wait_at_point($node, 'undo-page-copied'), 'a worker has a copy of the page');
# on another page of the same table: one more record of the same run
ask($s, 'INSERT INTO b VALUES (2, repeat($$b$$, 5000)); ROLLBACK');
leave_point($node, 'undo-page-copied');
undo_quiet($node, 'at the end');
is($node->safe_psql('postgres', "SELECT count(*) FROM $_"), '0', "nothing is left in table $_") for qw(a b);
ok(check_tables($node, 'at the end'), 'tables are sound');
finish_session($s);
$node->stop;
log_is_clean($node);
done_testing();
