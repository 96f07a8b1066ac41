# FOR KEY SHARE of child inserts is a heavyweight lock of the parent's TID, which
# most of them take without writing anything.  Seen by a DELETE and by FOR UPDATE,
# few in a transaction, alive in prepared transactions after a crash and after
# a promotion; rows that had such lockers once cost no such lock.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('children', allows_streaming => 1, conf => q{
wal_consistency_checking = 'zheap'
autovacuum = off
max_prepared_transactions = 5
max_locks_per_transaction = 20
max_connections = 20
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE p (id int PRIMARY KEY, n int) USING zheap;
CREATE TABLE c (id serial, pid int REFERENCES p) USING zheap;
INSERT INTO p SELECT g, 0 FROM generate_series(1, 20000) g;
CREATE PROCEDURE fill() LANGUAGE plpgsql AS $$ BEGIN
	FOR i IN 1..6000 LOOP
		INSERT INTO c (pid) VALUES (i);
		COMMIT;
	END LOOP;
END $$;});
my $standby = zheap_standby($node);

my $held = q{SELECT count(*) FROM pg_locks WHERE locktype = 'userlock'};
my $marked = q{SELECT count(*) FROM generate_series(0, pg_relation_size('p') / 8192 - 1) b, zheap_page_items('p', b::int) i WHERE i.flags::text LIKE '%hw_locked%'};

# a parent's second child writes nothing to the parent's page, nor WAL of it
sub lock_records
{
	my ($sql) = @_;
	my $start = wal_position($node);
	$node->safe_psql('postgres', $sql);
	# pg_waldump knows the record by its number alone
	return scalar(() = wal_since($node, $start) =~ /UNKNOWN \(b0\)/g);
}
is(lock_records('INSERT INTO c (pid) VALUES (1)'), 1, 'the first child marks its parent');
is(lock_records('INSERT INTO c (pid) VALUES (1); INSERT INTO c (pid) VALUES (1)'), 0, 'others write nothing');

# excluded is whom heap excludes
my $k = session($node);
my $refused = qr/canceling statement due to lock timeout|could not obtain lock/;
ask($k, 'BEGIN; INSERT INTO c (pid) VALUES (1);');
is(ask($k, $held), 1, 'one lock is held');
$node->safe_psql('postgres', 'UPDATE p SET n = n + 1 WHERE id = 1; SELECT n FROM p WHERE id = 1 FOR NO KEY UPDATE; SELECT n FROM p WHERE id = 1 FOR SHARE NOWAIT;');
for my $sql ('DELETE FROM p WHERE id = 1', 'UPDATE p SET id = -1 WHERE id = 1', 'SELECT n FROM p WHERE id = 1 FOR UPDATE NOWAIT')
{
	my ($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = 300; $sql");
	like($err, $refused, "refused: $sql");
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT 1 FROM p WHERE id < 4 FOR UPDATE SKIP LOCKED) s'), 2, 'SKIP LOCKED passes over it');
ask($k, 'COMMIT;');

# a transaction takes few of them; all its rows are locked
ask($k, 'BEGIN; INSERT INTO c (pid) SELECT g FROM generate_series(7001, 7100) g;');
cmp_ok(ask($k, $held), '<=', 5, 'many parents: few heavyweight locks');
for my $id (7001, 7002, 7050, 7100)
{
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT 1 FROM p WHERE id = $id FOR UPDATE NOWAIT");
	like($err, $refused, "row $id is locked");
}

# a savepoint's lock ends with it
ask($k, 'ROLLBACK; BEGIN; SAVEPOINT s; INSERT INTO c (pid) VALUES (7200); ROLLBACK TO s;');
$node->safe_psql('postgres', 'SELECT 1 FROM p WHERE id = 7200 FOR UPDATE NOWAIT; DELETE FROM p WHERE id = 7200');
ask($k, 'ROLLBACK;');

# a cursor's lock stays when the cursor fails in a savepoint
ask($k, 'ROLLBACK; BEGIN; SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = off; DECLARE d CURSOR FOR SELECT id, 1 / (7251 - id) FROM p WHERE id BETWEEN 7250 AND 7251 ORDER BY id FOR KEY SHARE; FETCH 1 FROM d; SAVEPOINT s;');
like(ask($k, 'FETCH 1 FROM d;'), qr/division by zero/, 'a cursor fails');
ask($k, 'ROLLBACK TO s;');
my (undef, undef, $error) = $node->psql('postgres', 'SELECT 1 FROM p WHERE id = 7250 FOR UPDATE NOWAIT');
like($error, $refused, 'what it had locked is locked');
ask($k, 'ROLLBACK;');

# my own lock doesn't stop me, not even behind a transaction that waits for me
ask($k, 'BEGIN; INSERT INTO c (pid) VALUES (7300);');
my $d = session($node);
my $pid = ask($d, 'SELECT pg_backend_pid();');
ask($d, 'BEGIN;');
send_sql($d, 'SELECT n FROM p WHERE id = 7300 FOR UPDATE;');
ok($node->poll_query_until('postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid"), 'another transaction waits');
is(ask($k, 'SELECT n FROM p WHERE id = 7300 FOR UPDATE;'), 0, 'the locker takes more');
ask($k, 'COMMIT;');
is(ask($d, ''), 0, 'then the other');
ask($d, 'COMMIT;');

# nor does one that had to wait for me stop another locker, for whom it waits next
my $k2 = session($node);
ask($k, 'BEGIN; INSERT INTO c (pid) VALUES (7400);');
ask($d, 'BEGIN;');
send_sql($d, 'SELECT n FROM p WHERE id = 7400 FOR UPDATE;');
ok($node->poll_query_until('postgres', "SELECT wait_event = 'userlock' FROM pg_stat_activity WHERE pid = $pid"), 'it waits for the first locker');
is(ask($k2, 'BEGIN; INSERT INTO c (pid) VALUES (7400);'), '', 'a second one does not wait');
ask($k, 'COMMIT;');
ok($node->poll_query_until('postgres', "SELECT wait_event = 'transactionid' FROM pg_stat_activity WHERE pid = $pid"), 'then for the second');
is(ask($k2, 'SELECT n FROM p WHERE id = 7400 FOR UPDATE;'), 0, 'who takes more');
ask($k2, 'COMMIT;');
is(ask($d, ''), 0, 'then the other');
ask($d, 'COMMIT;');
finish_session($_) foreach $d, $k2;

# thousands of rows with the mark: no lock for each
$node->safe_psql('postgres', 'CALL fill()');
cmp_ok($node->safe_psql('postgres', $marked), '>=', 6000, 'the marks stay');
is(ask($k, "BEGIN; DELETE FROM c; SELECT count(*) FROM (SELECT 1 FROM p WHERE id <= 3000 FOR UPDATE) s; DELETE FROM p WHERE id <= 6000; $held;"), "3000\n0", 'rows are locked and deleted without heavyweight locks');
ask($k, 'ROLLBACK;');
finish_session($k);

# prepared transactions keep theirs
$node->safe_psql('postgres', q{
BEGIN; INSERT INTO c (pid) VALUES (8000); PREPARE TRANSACTION 'a';
BEGIN; INSERT INTO c (pid) VALUES (8001); PREPARE TRANSACTION 'b';
BEGIN; INSERT INTO c (pid) VALUES (8002); PREPARE TRANSACTION 'c';});

sub refuses
{
	my ($on, $id, $when) = @_;
	my ($rc, $out, $err) = $on->psql('postgres', "SET lock_timeout = 300; DELETE FROM p WHERE id = $id");
	like($err, $refused, "a prepared child insert keeps its parent: $when");
}
refuses($node, 8000, 'at once');
kill_server($node);
start_after_kill($node);
refuses($node, 8000, 'after a crash');
$node->safe_psql('postgres', q{COMMIT PREPARED 'a'; ROLLBACK PREPARED 'b'; DELETE FROM p WHERE id = 8001;});
my ($rc, $out, $err) = $node->psql('postgres', 'DELETE FROM p WHERE id = 8000');
like($err, qr/violates foreign key/, 'committed: there is a child');
ok(check_tables($node, 'on the primary'), 'tables are sound');

$node->wait_for_catchup($standby);
is(tables_digest($standby, [ 'p', 'c' ]), tables_digest($node, [ 'p', 'c' ]), 'the standby has the same rows');
kill_server($node);
$standby->promote;
refuses($standby, 8002, 'after a promotion');
$standby->safe_psql('postgres', q{ROLLBACK PREPARED 'c'; DELETE FROM p WHERE id = 8002;});
ok(check_tables($standby, 'after the promotion'), 'tables are sound');
$standby->stop;
log_is_clean($standby);
log_is_clean($node);
done_testing();
