# Row lockers that got no xact slot are in the chain of the page's shared one.  One is
# prepared; who moves the row takes its lock along, and who deletes the moved row
# waits for it.  The lock isn't lost, nor by a crash.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('sharedlocks', conf => q{
autovacuum = off
fsync = off
});
$node->start;
# a page with room for six xact slots and the shared one
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE t (id int PRIMARY KEY, v int, t text) USING zheap;
CREATE INDEX ON t (v);
INSERT INTO t SELECT g, g, repeat('x', 79) FROM generate_series(1, 200) g;
} . join('', map { "BEGIN; UPDATE t SET t = repeat('y', 79) WHERE id = $_; PREPARE TRANSACTION 'w$_';\n" } 1 .. 5));

my $m = session($node);
my $k = session($node);
my $d = session($node);
my $m_pid = ask($m, "SET zheap.update_indexed_in_place = off; SELECT pg_backend_pid()");
my $d_pid = ask($d, "SET lock_timeout = '300ms'; SELECT pg_backend_pid()");
my $refused = qr/canceling statement due to lock timeout/;

# m has the last xact slot, k locks a row, which m is to move then.
sub lock_row
{
	my ($id) = @_;
	is(ask($m, "BEGIN; UPDATE t SET t = repeat('y', 79) WHERE id = 6 RETURNING id"), 6, 'the last xact slot is taken');
	is(ask($k, "BEGIN; SELECT id FROM t WHERE id = $id FOR KEY SHARE"), $id, 'a row is locked');
	like($node->safe_psql('postgres', "SELECT flags FROM zheap_page_items('t', 0) WHERE lp = $id"),
		qr/multi_locked/, 'without an xact slot');
	is($node->safe_psql('postgres', "SELECT status FROM zheap_page_slots('t', 0) WHERE id = 255"), 'shared', '... by the shared one');
	return "UPDATE t SET v = -v WHERE id = $id RETURNING v";
}

# prepared, then moved
my $move = lock_row(50);
is(ask($k, "PREPARE TRANSACTION 'k'"), '', 'the locker is prepared');
is(ask($m, "$move; COMMIT"), '-50', 'the row moved');
like(ask($d, 'DELETE FROM t WHERE id = 50'), $refused, 'the prepared one has it locked');
$node->safe_psql('postgres', "COMMIT PREPARED 'k'");
is(ask($d, 'DELETE FROM t WHERE id = 50 RETURNING v'), '-50', 'until it ends');

# moved, then prepared; and its process has another transaction by then
is(ask($m, lock_row(60) . '; COMMIT'), '-60', 'another row moves');
like(ask($k, "PREPARE TRANSACTION 'k'; BEGIN; SELECT pg_current_xact_id()"), qr/^\d+$/, 'the locker is prepared, its process goes on');
like(ask($d, 'DELETE FROM t WHERE id = 60'), $refused, 'it is seen');
$node->safe_psql('postgres', "ROLLBACK PREPARED 'k'");
is(ask($d, 'DELETE FROM t WHERE id = 60 RETURNING v'), '-60', 'until it ends');

ask($k, 'ROLLBACK');

# after a crash nobody knows more of it than that it is prepared
is(ask($m, lock_row(65) . '; COMMIT'), '-65', 'a third row moves');
is(ask($k, "SELECT id FROM t WHERE id = 70 FOR SHARE; PREPARE TRANSACTION 'k'"), '70', 'the locker locks another one, and is prepared');
kill_server($node);
finish_session($_) foreach $m, $k, $d;
ok(start_after_kill($node), 'the server crashed');
for my $id (65, 70)
{
	my ($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '300ms'; DELETE FROM t WHERE id = $id");
	like($err, $refused, "row $id is locked all the same");
}
$node->safe_psql('postgres', "COMMIT PREPARED 'k'");
is($node->safe_psql('postgres', 'WITH d AS (DELETE FROM t WHERE id IN (65, 70) RETURNING v) SELECT sum(v) FROM d'), 5, 'until it ends');

$node->safe_psql('postgres', "COMMIT PREPARED 'w$_'") foreach 1 .. 5;
is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM t'), '196|' . (20100 - 50 - 60 - 65 - 70), 'rows at the end');
undo_quiet($node, 'at the end');
ok(check_tables($node, 'at the end'), 'tables are sound');
$node->stop;
log_is_clean($node);
done_testing();
