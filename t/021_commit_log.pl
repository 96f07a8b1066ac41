# Whatever makes the horizons stand still, the commit log is kept from there
# on, though all heap tables are frozen: no launcher, no library, undo that
# can't be read, a rollback that waits while its neighbours are rewritten.  It
# isn't kept for tables that are gone, and U passes their writers.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node;

# Some million transactions: the next xid begins a segment of the commit log.
# The server is stopped and started.
sub jump
{
	my ($millions) = @_;
	$node->stop;
	command_ok([ 'pg_resetwal', '-x', $millions << 20, '-D', $node->data_dir ], "jump to $millions million");
	$node->start;
	return;
}

sub freeze_heap
{
	my $list = q{SELECT format('VACUUM (FREEZE) %s;', c.oid::regclass) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE c.relkind IN ('r', 'm', 't') AND a.amname = 'heap'};
	for (1 .. 2)
	{
		$node->safe_psql($_, $node->safe_psql($_, $list)) for qw(postgres template1 template0);
	}
	return;
}

sub age_of_cluster
{
	return $node->safe_psql('postgres', 'SELECT max(age(datfrozenxid)) FROM pg_database');
}

# One transaction after the other on the same pages, which nobody reads.
sub many_writers
{
	$node->safe_psql('postgres', join '', map { "INSERT INTO t SELECT g, 'good' FROM generate_series(1, 100) g;\n" } 1 .. 20);
	return;
}

sub new_node
{
	my ($name) = @_;
	$node = zheap_node($name, conf => "autovacuum = off\n");
	$node->start;
	jump(1);
	$node->safe_psql('postgres', q{
ALTER DATABASE template0 ALLOW_CONNECTIONS true;
CREATE EXTENSION zheap_am;
CREATE TABLE t (a int, b text) USING zheap;
CREATE TABLE u (a int, b text) USING zheap;
INSERT INTO u SELECT g, repeat('x', 100) FROM generate_series(1, 3000) g;
UPDATE u SET b = repeat('y', 100);});
	return;
}

# Nine million transactions, nothing but zheap tables to hold the commit log.
sub age
{
	my ($what) = @_;
	jump(10);
	freeze_heap();
	cmp_ok(age_of_cluster(), '>', 8 << 20, "$what: the commit log is held");
	return;
}

sub rows
{
	return $node->safe_psql('postgres', 'SELECT count(*), min(b), max(b) FROM t');
}

sub done
{
	my ($what, $except) = @_;
	$node->stop;
	log_is_clean($node, $except);
	return;
}

# --- no launcher
new_node('nolauncher');
$node->append_conf('postgresql.conf', 'max_worker_processes = 0');
$node->restart;
like(slurp_file($node->logfile), qr/WARNING:  there is no background worker slot for the undo launcher/, 'no launcher: the log says so');
many_writers();
age('no launcher');
is(rows(), '2000|good|good', 'no launcher: rows');
$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
$node->restart;
undo_quiet($node, 'no launcher: it is back');
$node->safe_psql('postgres', 'VACUUM FREEZE t; VACUUM FREEZE u');
freeze_heap();
cmp_ok(age_of_cluster(), '<', 1000, 'no launcher: the commit log is cut in the end');
is(rows(), '2000|good|good', 'no launcher: rows in the end');
done('no launcher', qr/no background worker slot/);

# --- no library
new_node('nolibrary');
set_conf($node, 'zheap.discard_naptime' => '60s');
many_writers();
$node->stop;
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
age('no library');
my ($rc, $out, $err) = $node->psql('postgres', 'VACUUM t');
isnt($rc, 0, 'no library: VACUUM fails');
$node->stop;
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'zheap_am'");
$node->start;
is(rows(), '2000|good|good', 'no library: rows');
done('no library');

# --- undo that can't be read
new_node('damaged');
set_conf($node, 'zheap.discard_naptime' => '60s');
$node->safe_psql('postgres', q{UPDATE u SET b = repeat('z', 100)});
many_writers();
$node->stop;
overwrite($node->data_dir . '/base/9/100', 8192 * $_, 'damage' x 1000) for 2 .. 5;
$node->append_conf('postgresql.conf', 'zheap.discard_naptime = 50ms');
$node->start;
ok( $node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_zheap_undo_holders
WHERE kind = 'damaged undo log' AND name ~ '^permanent undo log 0, block [2-5]$'}), 'damaged undo: the view names log and block');
age('damaged undo');
is(rows(), '2000|good|good', 'damaged undo: rows');
done('damaged undo', qr/base\/9\/100|XX001/);

# --- a rollback that waits, and a table beside it whose history an old
# snapshot needs is rewritten
new_node('rewritten');
many_writers();
set_conf($node, 'zheap.rollback_paused' => 'on');
$node->safe_psql('postgres', q{
SET zheap.rollback_foreground_size = 0;
BEGIN; UPDATE u SET b = 'never'; ROLLBACK;});
# later than the rollback, seen by the snapshot, then changed
$node->safe_psql('postgres', q{UPDATE t SET b = 'better' WHERE a <= 50});
my $old = session($node);
my $look = 'SELECT count(*), min(b), max(b) FROM t';
# without a lock on the table
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$node->safe_psql('postgres', q{UPDATE t SET b = 'best' WHERE a <= 70});
$node->safe_psql('postgres', 'VACUUM FULL t');
is($node->safe_psql('postgres', q{SELECT relfrozenxid::text::bigint <= u::text::bigint FROM pg_class, zheap_horizons() WHERE relname = 't'}),
	't', 'rewritten: relfrozenxid is not above U');
is(ask($old, $look), '2000|better|good', 'rewritten: snapshot');
ask($old, 'COMMIT');
finish_session($old);
age('rewritten');
is(rows(), '2000|best|good', 'rewritten: rows');
set_conf($node, 'zheap.rollback_paused' => 'off');
is($node->safe_psql('postgres', 'SELECT pg_zheap_drain_undo()'), 't', 'rewritten: rollback goes on');
is($node->safe_psql('postgres', 'SELECT count(*), min(length(b)) FROM u'), '3000|100', 'rewritten: and was needed');
check_tables($node, 'rewritten');
done('rewritten');

# --- a rollback that waits, and then its table is gone
new_node('gone');
set_conf($node, 'zheap.rollback_paused' => 'on');
$node->safe_psql('postgres', q{
SET zheap.rollback_foreground_size = 0;
BEGIN; UPDATE u SET b = 'never'; ROLLBACK;
DROP TABLE u, t;
SELECT pg_current_xact_id();
CREATE TABLE t (a int, b text) USING zheap;});
many_writers();
jump(10);
freeze_heap();
cmp_ok(age_of_cluster(), '<', 10 << 20, 'gone: the commit log is cut');
undo_quiet($node, 'gone: U passes the writer');
is(rows(), '2000|good|good', 'gone: rows');
done('gone');

done_testing();
