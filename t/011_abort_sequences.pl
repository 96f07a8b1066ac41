# Sequences that would lose or invent rows around aborts: errors inside the
# rollback of an aborting session, writers of one log out of the order of
# their xids, savepoints that take over each other's changes, restarts with
# fewer connections, workers that are told to stop, copies of databases.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('aborts', conf => q{
autovacuum = off
shared_buffers = 1MB
log_min_messages = warning
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE filler AS SELECT g AS a, repeat('f', 500) AS b FROM generate_series(1, 6000) g;
CREATE INDEX ON filler (a);
CREATE TABLE x (k int, c int) USING zheap;
INSERT INTO x SELECT g, g FROM generate_series(1, 100) g;
CREATE TABLE noted (a int);
});
my $all = 'SELECT count(*), sum(k), sum(c) FROM x';
my $before = $node->safe_psql('postgres', $all);
my $file = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('x')});
# reads more than the buffers hold, and not through a ring
my $fill = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT sum(length(b)) FROM filler WHERE a > 0';

sub bytes
{
	my ($at, $bytes) = @_;
	open(my $fh, '+<:raw', $file) or die;
	seek $fh, $at, 0;
	my $old = '';
	if (defined $bytes) { print $fh $bytes } else { read $fh, $old, 8192 }
	close $fh;
	return $old;
}

# --- the page of an aborting session cannot be read (checksum failure)
for my $how ('ROLLBACK', 'an error', 'ROLLBACK TO')
{
	my $s = session($node);
	ask($s, q{SET client_min_messages = warning; BEGIN; INSERT INTO noted VALUES (1); SAVEPOINT a; UPDATE x SET c = c + 1000 WHERE k <= 50});
	ask($s, $fill) for 1 .. 2;
	$node->safe_psql('postgres', "CHECKPOINT; $fill");
	my $page = bytes(0);
	bytes(3000, 'damage');
	my $out = ask($s, $how eq 'an error' ? 'SELECT 1 / 0' : $how eq 'ROLLBACK' ? 'ROLLBACK' : 'ROLLBACK TO a');
	like($out, qr/division by zero/, 'the error that aborts is told') if $how eq 'an error';
	unlike($out, qr/errstart|server closed|ERROR:.*page/, "$how: no error of the rollback gets out") or note($out);
	ask($s, 'COMMIT');
	is(ask($s, 'SELECT 42'), '42', "$how: session lives");
	like(ask($s, q{SET statement_timeout = 200; SELECT pg_sleep(60)}), qr/statement timeout/, 'it can be cancelled');
	ask($s, 'RESET statement_timeout');
	my ($ret, $o, $e) = $node->psql('postgres', "SET statement_timeout = '100s'; $all");
	like($e, qr/invalid page|page verification failed/, 'others get an error for the page and do not hang');
	my $pid = ask($s, 'SELECT pg_backend_pid()');
	send_sql($s, 'SELECT pg_sleep(60)');
	$node->safe_psql('postgres', "SELECT pg_sleep(0.2); SELECT pg_terminate_backend($pid)");
	ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid"), 'and terminated');
	finish_session($s);
	bytes(0, $page);
	is($node->safe_psql('postgres', $all), $before, 'rows are right when the page is back');
	# what failed is tried again after a while, or at once by a writer
	$node->safe_psql('postgres', 'BEGIN; UPDATE x SET c = 0; ROLLBACK');
	undo_quiet($node, $how);
	is($node->safe_psql('postgres', $all), $before, 'and when it is rolled back');
}

# --- the file of the table is away for a moment (a tablespace that isn't mounted),
# its pages being in memory, or on disk only: that isn't a table that got shorter
my $place = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', "CREATE TABLESPACE away LOCATION '$place'");
my $link = $node->data_dir . '/pg_tblspc/' . $node->safe_psql('postgres', q{SELECT oid FROM pg_tablespace WHERE spcname = 'away'});
# who updates all of y has none of z's pages among those that it had last
$node->safe_psql('postgres', q{
CREATE TABLE y (k int, c int, t text) USING zheap WITH (fillfactor = 10);
INSERT INTO y SELECT g, 0, repeat('y', 500) FROM generate_series(1, 40) g;
CREATE TABLE z (k int, c int) USING zheap TABLESPACE away;
INSERT INTO z SELECT g, g FROM generate_series(1, 100) g});
my $rows = 'SELECT count(*), sum(k), sum(c) FROM z';
my $sound = $node->safe_psql('postgres', $rows);
for my $where ('memory', 'disk')
{
	for my $how ('ROLLBACK', 'ROLLBACK TO a; COMMIT')
	{
		my $s = session($node);
		ask($s, 'BEGIN; INSERT INTO noted VALUES (1); SAVEPOINT a; UPDATE z SET c = c + 1000 WHERE k <= 50; UPDATE y SET c = c + 1');
		if ($where eq 'disk')
		{
			ask($s, $fill) for 1 .. 2;
			# DROP DATABASE has all processes close their files
			$node->safe_psql('postgres', "CHECKPOINT; $fill");
			$node->safe_psql('postgres', $_) foreach 'CREATE DATABASE gone', 'DROP DATABASE gone';
		}
		rename($link, "$link.away") or die;
		my $out = ask($s, $how);
		rename("$link.away", $link) or die;
		is($out, '', "$how while a file is away, its page in $where");
		finish_session($s);
		is($node->safe_psql('postgres', $rows), $sound, '... and rows are right when it is back');
		undo_quiet($node, 'when it is back');
		is($node->safe_psql('postgres', $rows), $sound, '... and when all is rolled back and discarded');
	}
}
$node->safe_psql('postgres', 'DROP TABLE y, z; DROP TABLESPACE away');

# --- an older xid writes behind a younger one in the same log, and aborts
set_conf($node, 'zheap.rollback_paused' => 'on', 'zheap.rollback_foreground_size' => '0');
my $t = session($node);
ask($t, 'BEGIN; INSERT INTO noted VALUES (1)');		# has its xid now
$node->safe_psql('postgres', 'UPDATE x SET c = c + 1 WHERE k = 1; UPDATE x SET c = c - 1 WHERE k = 1') for 1 .. 3;
ask($t, 'UPDATE x SET c = c + 5 WHERE k BETWEEN 1 AND 20');
$node->safe_psql('postgres', 'UPDATE x SET c = c + 1 WHERE k = 50; UPDATE x SET c = c - 1 WHERE k = 50') for 1 .. 3;
ask($t, 'ROLLBACK');

# --- savepoints on one page: released, then changed by the parent, all aborted
ask($t, q{BEGIN; SAVEPOINT s; UPDATE x SET c = c + 10 WHERE k = 30; DELETE FROM x WHERE k = 31; RELEASE s;
UPDATE x SET c = c + 10 WHERE k IN (30, 32); INSERT INTO x VALUES (1000, 1000);
SAVEPOINT s; UPDATE x SET c = c + 10 WHERE k IN (30, 33); SAVEPOINT r; DELETE FROM x WHERE k = 34; ROLLBACK TO r;
UPDATE x SET c = c + 1 WHERE k = 34; RELEASE s; UPDATE x SET c = c + 1 WHERE k = 35; ROLLBACK});
is($node->safe_psql('postgres', $all), $before, 'rows before anything is undone');
$node->safe_psql('postgres', 'SELECT pg_current_xact_id()') for 1 .. 20;
sleep 1;
is($node->safe_psql('postgres', $all), $before, 'discard does not make aborted rows visible');

# --- fewer connections at the next start than logs with undo
my @many = map { session($node) } 1 .. 12;
ask($many[$_], "BEGIN; INSERT INTO noted VALUES (2); CREATE TABLE m$_ (a int) USING zheap; INSERT INTO m$_ VALUES (1); COMMIT; BEGIN; UPDATE m$_ SET a = 7; DELETE FROM m$_") for 0 .. 11;
my $logs = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_zheap_undo WHERE persistence LIKE 'p%'});
kill_server($node);
finish_session($_) for @many;
$node->append_conf('postgresql.conf', "max_connections = 8\nmax_wal_senders = 0\nmax_worker_processes = 4\nautovacuum_max_workers = 1\nmax_prepared_transactions = 0\n");
ok(start_after_kill($node), 'start with fewer connections');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_zheap_undo WHERE persistence LIKE 'p%'}), $logs, "all $logs logs are known");
$node->safe_psql('postgres', 'SELECT pg_current_xact_id()') for 1 .. 20;
sleep 1;
is($node->safe_psql('postgres', $all), $before, 'rows after a crash with everything pending');
is($node->safe_psql('postgres', 'SELECT ' . join ' + ', map { "(SELECT sum(a) FROM m$_)" } 0 .. 11), '12', 'also in the small tables');

# --- a database with undo pending is copied: not before it is undone
$node->safe_psql('postgres', 'CREATE DATABASE source');
$node->safe_psql('source', q{CREATE EXTENSION zheap_am; CREATE TABLE x (k int, c int) USING zheap;
INSERT INTO x SELECT g, g FROM generate_series(1, 100) g;
BEGIN; UPDATE x SET c = 0; DELETE FROM x WHERE k < 10; ROLLBACK});
my (undef, undef, $err) = $node->psql('postgres', 'CREATE DATABASE copy TEMPLATE source');
like($err, qr/aborted transactions that are not rolled back yet/, 'not while rollback is paused');

# --- workers are told to stop while they work
set_conf($node, 'zheap.rollback_paused' => 'off');
my $copier = session($node);
send_sql($copier, 'CREATE DATABASE copy2 TEMPLATE source');
for (1 .. 20)
{
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE '%undo%' OR backend_type LIKE '%zheap%'});
	select(undef, undef, undef, 0.05);
}
is(ask($copier, 'SELECT 1'), '1', 'CREATE DATABASE waits for the rollback');
finish_session($copier);
is($node->safe_psql('copy2', $all), $before, 'its copy has the right rows');
undo_quiet($node, 'though its workers were stopped');
is($node->safe_psql('postgres', $all), $before, 'rows when all is undone');
is($node->safe_psql('postgres', 'SELECT ' . join ' + ', map { "(SELECT sum(a) FROM m$_)" } 0 .. 11), '12', 'and in the small tables');
$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE source');
is($node->safe_psql('copy', $all), $before, 'the copy has the right rows');
check_tables($node, 'copy', 'copy');
check_tables($node, 'at the end');
finish_session($t);
$node->stop;
log_is_clean($node, qr/could not roll back/);
done_testing();
