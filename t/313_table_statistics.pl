# pg_stat_zheap_tables: each counter against known work, by whoever did it; what
# becomes of the counters when transactions abort, tables and databases are
# dropped, the server restarts or crashes; a standby.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('tablestats', allows_streaming => 1, conf => q{
autovacuum = off
max_prepared_transactions = 220
});
$node->start;

sub one { my ($query, $db) = @_; return $node->safe_psql($db // 'postgres', $query) }
my @columns = qw(n_upd_in_place n_upd_new_keys n_upd_moved_indexed
  n_upd_moved_snapshots n_upd_moved_no_room
  n_upd_moved_trigger xact_slots_shared rows_spilled pages_compacted
  old_versions_read longest_walk);

# What isn't named is zero.  Others' counts come with a delay since 18.
sub counted
{
	my ($table, $what, %want) = @_;
	my $server = delete $want{server} // $node;
	my $condition = join ' AND ', map {
		my $value = $want{$_} // 0;
		$_ . ($value =~ /^\d/ ? " = $value" : " $value")
	} @columns;

	return ok($server->poll_query_until('postgres',
		"SELECT $condition FROM pg_stat_zheap_tables WHERE relname = '$table' AND schemaname = 'public'"), "$table: $what")
	  || diag($server->safe_psql('postgres', "SELECT * FROM pg_stat_zheap_tables WHERE relname = '$table'"));
}

one(q{
CREATE EXTENSION zheap_am;
CREATE TABLE a (k int PRIMARY KEY, v int) USING zheap;
INSERT INTO a SELECT g, 0 FROM generate_series(1, 50) g;
CREATE TABLE at_heap (k int);
});
counted('a', 'inserts do not count');
is(one(q{SELECT count(*) FROM pg_stat_zheap_tables WHERE relname = 'at_heap'}), '0', 'zheap tables only');

# --- updates, by the way they went
one('UPDATE a SET v = v + 1 WHERE k <= 20');
one('UPDATE a SET k = k + 1000 WHERE k <= 3');
my %a = (n_upd_in_place => 20, n_upd_moved_indexed => 3);
counted('a', 'in place and moved', %a);
one('BEGIN; UPDATE a SET v = 7 WHERE k = 10; SAVEPOINT s; UPDATE a SET v = 8 WHERE k = 11; ROLLBACK');
$a{n_upd_in_place} += 2;
counted('a', 'what was rolled back was done, too', %a);

# nor do counts come behind a table that another session drops meanwhile
one('CREATE TABLE gone (k int) USING zheap; INSERT INTO gone VALUES (1)');
my $gone = one(q{SELECT 'gone'::regclass::oid});
my $aborter = session($node);
ask($aborter, 'BEGIN; UPDATE gone SET k = 2; ROLLBACK');
one('DROP TABLE gone');
is(ask($aborter, "SELECT 1; SELECT n_upd_in_place FROM pg_stat_get_zheap_table($gone)"), "1\n0", 'an aborted transaction counted for a table that is gone');
finish_session($aborter);
is(one("SELECT n_upd_in_place FROM pg_stat_get_zheap_table($gone)"), '0', 'and at the end of the session, too');

# keys of a table change in place when snapshots of before are gone
{
	my $old = session($node);
	ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; TABLE at_heap');
	one(q{CREATE TABLE keyed (k int PRIMARY KEY, v int) USING zheap;
		CREATE INDEX ON keyed (v);
		INSERT INTO keyed SELECT g, g FROM generate_series(1, 10) g});
	my $update = sub { return one("SET zheap.update_indexed_in_place = on; UPDATE keyed SET $_[0]") };
	$update->('v = v + 1 WHERE k <= 2');
	$update->('v = v + 1 WHERE k = 3');
	counted('keyed', 'an old snapshot', n_upd_moved_snapshots => 3);
	ask($old, 'COMMIT');
	finish_session($old);
	my $same = 0;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		$update->('v = v WHERE k = 10');
		$same++;
		last if one(q{SELECT 'keys_allowed' = ANY (zheap_page_flags('keyed', 0))}) eq 't';
		select undef, undef, undef, 0.1;
	}
	$update->('v = v + 1 WHERE k <= 4');
	$update->('k = 11, v = 0 WHERE k = 5');
	counted('keyed', 'keys changed in place', n_upd_moved_snapshots => 3, n_upd_in_place => $same + 4, n_upd_new_keys => 4, n_upd_moved_indexed => 1);
}

one(q{
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TABLE late (k int, v int) USING zheap;
CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION nothing();
INSERT INTO late VALUES (1, 0);
BEGIN; UPDATE late SET v = 1; UPDATE late SET v = 2; COMMIT});
# (core asks for the row that moved as the statement saw it, to queue the event)
counted('late', 'a queued trigger wants the old row', n_upd_in_place => 1, n_upd_moved_trigger => 1, old_versions_read => 1, longest_walk => 1);

one(q{
CREATE TABLE full_page (k int, t text) USING zheap;
INSERT INTO full_page SELECT g, repeat('f', 100) FROM generate_series(1, 200) g;
UPDATE full_page SET t = (SELECT string_agg(md5(g::text), '') FROM generate_series(1, 30) g) WHERE k = 1});
counted('full_page', 'a row that grows too much', n_upd_moved_no_room => 1);

# --- more writers than a page has xact slots
one(q{
CREATE TABLE ex (id int PRIMARY KEY, v int, t text) USING zheap WITH (fillfactor = 100);
INSERT INTO ex SELECT g, 0, repeat('x', 100) FROM generate_series(1, 200) g});
my $writer = session($node);
ask($writer, "SET lock_timeout = '180s'");
unlike(ask($writer, "BEGIN; UPDATE ex SET v = 1 WHERE id = $_; PREPARE TRANSACTION 'ex $_'"), qr/ERROR|timeout/, "writer $_ doesn't wait") for 1 .. 40;
ask($writer, "COMMIT PREPARED 'ex $_'") for 1 .. 40;
finish_session($writer);
counted('ex', 'more writers than the page has xact slots', n_upd_in_place => '>= 6', n_upd_moved_no_room => ">= 20", xact_slots_shared => '>= 20', pages_compacted => '>= 0', old_versions_read => '>= 0', longest_walk => '>= 0');

# --- old versions
one(q{
CREATE TABLE b (k int PRIMARY KEY, v int) USING zheap;
INSERT INTO b SELECT g, 0 FROM generate_series(1, 100) g});
my $old = session($node);
ask($old, 'SET enable_seqscan = off; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM b WHERE k = 1');
one('UPDATE b SET v = v + 1 WHERE k = 5') for 1 .. 3;
is(ask($old, 'SELECT v FROM b WHERE k = 5'), '0', 'a reader of the oldest version');
is(ask($old, "SELECT old_versions_read, longest_walk FROM pg_stat_zheap_tables WHERE relname = 'b'"), '3|3', 'it sees its own counts at once');
ask($old, 'COMMIT');
counted('b', 'versions read', n_upd_in_place => 3, old_versions_read => 3, longest_walk => 3);
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM b WHERE k = 1');
one('UPDATE b SET v = v + 1');
is(ask($old, 'SET enable_seqscan = on; SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT sum(v) FROM b'), '3', 'a whole page of old versions');
ask($old, 'COMMIT');
finish_session($old);
counted('b', 'versions read from whole pages', n_upd_in_place => 103, old_versions_read => '>= 103', longest_walk => 3);

# --- room made by spilling, and by VACUUM
one(q{
CREATE TABLE z (id int, t text) USING zheap;
INSERT INTO z SELECT g, repeat('a', 80) FROM generate_series(1, 1000) g});
my $keeper = session($node);
ask($keeper, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM z');
one('DELETE FROM z WHERE id <= 500');
one(q{INSERT INTO z SELECT g, repeat('b', 80) FROM generate_series(2001, 2400) g});
counted('z', 'rows that a snapshot may want were spilled', rows_spilled => '> 100', pages_compacted => '> 0');
is(ask($keeper, 'SELECT count(*), sum(id) FROM z'), '1000|500500', 'it still sees them');
ask($keeper, 'COMMIT');
finish_session($keeper);
one(q{
CREATE TABLE dead (id int, t text) USING zheap;
INSERT INTO dead SELECT g, repeat('a', 80) FROM generate_series(1, 1000) g;
DELETE FROM dead WHERE id % 2 = 0});
undo_quiet($node, 'before VACUUM');
one('VACUUM dead');
counted('dead', 'VACUUM', pages_compacted => one(q{SELECT pg_relation_size('dead') / 8192}));

# --- more tables than a process has at hand, by two sessions in turn
one(q{DO $$ BEGIN FOR i IN 1..100 LOOP
	EXECUTE format('CREATE TABLE many%s (k int) USING zheap', i);
	EXECUTE format('INSERT INTO many%s VALUES (0)', i);
END LOOP; END $$});
my @many = map { session($node) } 1 .. 2;
my $update_all = q{DO $$ BEGIN FOR i IN 1..100 LOOP EXECUTE format('UPDATE many%s SET k = k + 1', i); END LOOP; END $$};
my $all_are = q{SELECT count(*) = 100 AND min(n_upd_in_place) = %1$d AND max(n_upd_in_place) = %1$d FROM pg_stat_zheap_tables WHERE relname ~ '^many'};
ask($many[ $_ % 2 ], $update_all) for 1 .. 4;
ask($many[0], "BEGIN; $update_all");
is(ask($many[0], sprintf $all_are, 5), 't', 'counts of a running transaction are seen by itself') if $node->pg_version < 18;
ask($many[0], 'COMMIT');
finish_session($many[0]);
ok($node->poll_query_until('postgres', sprintf $all_are, 5), 'many tables, two sessions');
one($update_all);
ok($node->poll_query_until('postgres', sprintf $all_are, 6), 'and one that comes after another');
ask($many[1], $update_all);
one(q{DO $$ BEGIN FOR i IN 1..100 LOOP EXECUTE format('DROP TABLE many%s', i); END LOOP; END $$});
is(ask($many[1], 'SELECT 1'), '1', 'another has dropped what this one counted for');
finish_session($many[1]);

# --- tables that come and go
one('BEGIN; CREATE TABLE never (k int) USING zheap; INSERT INTO never VALUES (1); UPDATE never SET k = 2; ROLLBACK');
one('BEGIN; SAVEPOINT s; CREATE TABLE never (k int) USING zheap; INSERT INTO never VALUES (1); UPDATE never SET k = 2; ROLLBACK TO s; COMMIT');
one('BEGIN; CREATE TEMP TABLE t (k int) USING zheap ON COMMIT DROP; INSERT INTO t VALUES (1); UPDATE t SET k = 2; COMMIT');
one('BEGIN; CREATE TEMP TABLE t (k int) USING zheap ON COMMIT DROP; INSERT INTO t VALUES (1); UPDATE t SET k = 2; COMMIT; SELECT 1');
for my $end ('ROLLBACK', 'SAVEPOINT s; SELECT 1 / 0', q{PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'})
{
	my (undef, $out) = $node->psql('postgres', "BEGIN; CREATE TABLE never (k int) USING zheap; INSERT INTO never VALUES (1); UPDATE never SET k = 2; SELECT 'never'::regclass::oid, n_upd_in_place FROM pg_stat_get_zheap_table('never'::regclass); $end");
	my ($never, $n) = split /\|/, $out;
	is($n, '1', 'a table that its transaction has made');
	is(one("SELECT n_upd_in_place FROM pg_stat_get_zheap_table($never)"), '0', "it keeps no place after $end");
}
one('CREATE TABLE gone (k int) USING zheap; INSERT INTO gone VALUES (1); UPDATE gone SET k = 2');
counted('gone', 'before it goes', n_upd_in_place => 1);
my $oid = one(q{SELECT 'gone'::regclass::oid});
one('BEGIN; DROP TABLE gone; ROLLBACK');
one('BEGIN; SAVEPOINT s; DROP TABLE gone; ROLLBACK TO s; COMMIT');
counted('gone', 'a DROP that was rolled back', n_upd_in_place => 1);
one('DROP TABLE gone');
is(one("SELECT n_upd_in_place FROM pg_stat_get_zheap_table($oid)"), '0', 'dropped with the table');
one('CREATE TABLE turns (k int) USING zheap; INSERT INTO turns VALUES (1); UPDATE turns SET k = 2; ALTER TABLE turns SET ACCESS METHOD heap');
$oid = one(q{SELECT 'turns'::regclass::oid});
my $counted = "SELECT n_upd_in_place FROM pg_stat_get_zheap_table($oid)";
is(one($counted), '1', 'a table that is a heap now');
one('DROP TABLE turns');
is(one($counted), '0', 'dropped with it, too');
one('CREATE DATABASE short');
one('CREATE EXTENSION zheap_am; CREATE TABLE s (k int) USING zheap; INSERT INTO s VALUES (1); UPDATE s SET k = 2', 'short');
is(one(q{SELECT pg_zheap_drain_undo('3 min')}), 't', 'nothing to roll back');
one('DROP DATABASE short');

# --- a standby reads, too
my $standby = zheap_standby($node, feedback => 1);
my $far = session($standby);
ask($far, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM b');
ok($node->poll_query_until('postgres', 'SELECT backend_xmin IS NOT NULL FROM pg_stat_replication'), 'feedback');
one('UPDATE b SET v = -1 WHERE k <= 10');
$node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));
is(ask($far, 'SELECT count(*) FROM b WHERE v = -1'), '0', 'an old snapshot of a standby');
ask($far, 'COMMIT');
finish_session($far);
counted('b', 'counted there', server => $standby, old_versions_read => '>= 10', longest_walk => '>= 1');
$standby->stop;

# --- restarts: before 18 all begins again
my $all = q{SELECT array_agg(t ORDER BY t.relid)::text FROM pg_stat_zheap_tables t};
counted('b', 'before the restart', n_upd_in_place => 113, old_versions_read => '>= 103', longest_walk => 3);
my $before = one($all);
$node->restart;
if ($node->pg_version < 18)
{
	counted('b', 'after it');
}
else
{
	is(one($all), $before, 'counters survive a clean restart');
	$node->restart;
	$node->restart;
	is(one($all), $before, 'also if nobody asked in between');
}
kill_server($node);
ok(start_after_kill($node), 'start after a crash');
counted('b', 'nothing after it');
one('UPDATE b SET v = 3');
counted('b', 'counted after the crash', n_upd_in_place => 100);
$node->stop('immediate');
ok(start_after_kill($node), 'start after an immediate shutdown');
counted('b', 'nor after that');

# --- reset
one('UPDATE b SET v = 0');
counted('b', 'counted again', n_upd_in_place => 100);
my $stays = session($node);
ask($stays, 'UPDATE b SET v = 1; SELECT pg_stat_force_next_flush()');
counted('b', 'by a session that stays', n_upd_in_place => 200);
one('SELECT pg_zheap_reset_stats()');
counted('b', 'reset');
ask($stays, 'UPDATE b SET v = 2 WHERE k <= 7; SELECT pg_stat_force_next_flush()');
counted('b', 'that session counts from zero', n_upd_in_place => 7);
finish_session($stays);
one('CREATE ROLE somebody');
is(one("SET ROLE somebody; SELECT count(*) > 3 FROM pg_stat_zheap_tables"), 't', 'all may look');
($_, $_, my $refused) = $node->psql('postgres', 'SET ROLE somebody; SELECT pg_zheap_reset_stats()');
like($refused, qr/permission denied for function pg_zheap_reset_stats/, 'but not reset');
one('SET track_counts = off; UPDATE b SET v = 1');
counted('b', 'not with track_counts = off', n_upd_in_place => 7);

log_is_clean($node);
$node->stop;
done_testing();
