# Rollback workers at work while the world changes around them: DDL on the
# table that is being rolled back, workers cancelled, terminated, killed, none
# to be had, databases copied and dropped, the extension dropped and created.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('workers', conf => q{
autovacuum = off
zheap.rollback_foreground_size = 0
allow_in_place_tablespaces = on
max_wal_size = 4GB
deadlock_timeout = 200ms
lock_timeout = 60s
restart_after_crash = on
fsync = off
});
$node->start;
$node->safe_psql('postgres', q{CREATE EXTENSION zheap_am; CREATE TABLESPACE other LOCATION ''});

my $rows = 20000;
my $digest = 'SELECT count(*), sum(k), sum(length(t)), min(id), max(id) FROM ';
my $expected = $node->safe_psql('postgres',
	"SELECT count(*), sum(g % 100), sum(50), min(g), max(g) FROM generate_series(1, $rows) g");

sub paused { set_conf($node, 'zheap.rollback_paused' => $_[0]) }

sub fill
{
	my ($table, $db) = @_;
	$node->safe_psql($db // 'postgres', qq{
CREATE TABLE $table (id int PRIMARY KEY, k int, t text) USING zheap;
INSERT INTO $table SELECT g, g % 100, repeat('x', 50) FROM generate_series(1, $rows) g;
CREATE INDEX ${table}_k ON $table (k);});
}

# A rollback of about a thousand pages, not yet done.
sub leave_rollback
{
	my ($table, $db) = @_;
	$node->safe_psql($db // 'postgres', qq{
BEGIN;
UPDATE $table SET t = upper(t) WHERE id > 10;
DELETE FROM $table WHERE id % 3 = 0;
INSERT INTO $table SELECT g, g, 'never' FROM generate_series(100001, 103000) g;
UPDATE $table SET k = k + 1000 WHERE id % 10 = 1;
ROLLBACK;});
}

my $workers = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'undo rollback worker'};

sub all_undone { undo_quiet($node, $_[0]) }

# --- DDL beside a worker that is in the middle of it, done and taken back
my @ddl = (
	'VACUUM FULL @', 'CLUSTER @ USING @_k', 'ALTER TABLE @ ALTER k TYPE bigint',
	'ALTER TABLE @ SET TABLESPACE other', 'ALTER TABLE @ SET ACCESS METHOD heap',
	'ALTER TABLE @ SET ACCESS METHOD zheap', 'VACUUM @', 'REINDEX TABLE @',
	'BEGIN; TRUNCATE @; ROLLBACK',
	'BEGIN; CLUSTER @ USING @_pkey; ROLLBACK',
	'BEGIN; ALTER TABLE @ SET ACCESS METHOD heap; ROLLBACK',
	'BEGIN; LOCK @; SELECT pg_sleep(0.5); ROLLBACK');
fill('d');
for my $ddl (@ddl)
{
	paused('on');
	leave_rollback('d');
	paused('off');
	(my $sql = $ddl) =~ s/\@/d/g;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	is("$rc $err", '0 ', "beside a worker: $sql");
	is($node->safe_psql('postgres', "$digest d"), $expected, "right after: $sql");
}
all_undone('beside DDL');
is($node->safe_psql('postgres', "$digest d"), $expected, 'right when all is undone');
check_tables($node, 'DDL beside workers');
paused('on');
leave_rollback('d');
paused('off');
is(($node->psql('postgres', 'DROP TABLE d'))[0], 0, 'DROP TABLE beside a worker');
all_undone('dropped table');

# --- workers cancelled and terminated
fill('c');
paused('on');
leave_rollback('c');
paused('off');
for my $how ('cancel', 'terminate')
{
	for (1 .. 5)
	{
		$node->safe_psql('postgres', qq{
SELECT pg_${how}_backend(pid) FROM pg_stat_activity WHERE backend_type = 'undo rollback worker';
SELECT pg_sleep(0.1)});
	}
}
all_undone('in spite of cancelling and terminating');
is($node->safe_psql('postgres', "$digest c"), $expected, 'rows are right');
check_tables($node, 'workers terminated');

# --- a worker killed: everybody starts again, so does the rollback
paused('on');
leave_rollback('c');
paused('off');
ok($node->poll_query_until('postgres', "SELECT ($workers) > 0"), 'a worker is there');
my $pid = $node->safe_psql('postgres',
	q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'undo rollback worker' LIMIT 1});
kill 'KILL', $pid if $pid;
my $back;
for (1 .. 900)
{
	select(undef, undef, undef, 0.2);
	# psql may be gone before it has read the query
	$back = eval { ($node->psql('postgres', 'SELECT 1'))[0] };
	last if defined $back && $back == 0;
}
is($back, 0, 'the server is back');
is($node->safe_psql('postgres', "$digest c"), $expected, 'rows are right at once');
all_undone('after a worker was killed');
is($node->safe_psql('postgres', "$digest c"), $expected, 'and when undone');
check_tables($node, 'a worker killed');

# --- no worker to be had: nothing is wrong, and it is done as soon as there is
$node->append_conf('postgresql.conf', "max_worker_processes = 2\nzheap.rollback_paused = on\n");
$node->restart;
leave_rollback('c');
paused('off');
for (1 .. 1800)
{
	last if slurp_file($node->logfile) =~ /out of background worker slots/;
	select(undef, undef, undef, 0.1);
}
is($node->safe_psql('postgres', $workers), '0', 'no worker');
like(slurp_file($node->logfile), qr/out of background worker slots for the rollback/, 'the log says so');
is($node->safe_psql('postgres', "$digest c"), $expected, 'rows are right');
$node->safe_psql('postgres', "UPDATE c SET t = t WHERE id % 50 = 0");
is($node->safe_psql('postgres', "$digest c"), $expected, 'and can be written');
is(($node->psql('postgres', 'VACUUM FULL c'))[0], 0, 'VACUUM FULL does it, too');
is($node->safe_psql('postgres', "$digest c"), $expected, 'rows are right after that');
leave_rollback('c');
$node->append_conf('postgresql.conf', "max_worker_processes = 8\n");
$node->restart;
all_undone('with a worker');
is($node->safe_psql('postgres', "$digest c"), $expected, 'rows are right when undone');
$node->append_conf('postgresql.conf', "zheap.max_rollback_workers = 0\n");
$node->reload;
leave_rollback('c');
is($node->safe_psql('postgres', "$digest c"), $expected, 'none allowed: rows are right');
$node->append_conf('postgresql.conf', "zheap.max_rollback_workers = 1\n");
$node->reload;
all_undone('one allowed');
check_tables($node, 'workers exhausted');

# --- databases: copied by both strategies, dropped; more than there are workers
for my $db ('src', 'gone', 'gone_too')
{
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, 'CREATE EXTENSION zheap_am');
	fill('x', $db);
}
for my $strategy ('wal_log', 'file_copy')
{
	leave_rollback('x', 'src');
	my ($rc, $out, $err) = $node->psql('postgres',
		"CREATE DATABASE copy_$strategy TEMPLATE src STRATEGY $strategy");
	is("$rc $err", '0 ', "copied while it is being rolled back: $strategy");
	is($node->safe_psql("copy_$strategy", "$digest x"), $expected, "$strategy: rows are right");
	check_tables($node, "copy by $strategy", "copy_$strategy");
}
leave_rollback('x', 'gone');
is(($node->psql('postgres', 'DROP DATABASE gone'))[0], 0, 'dropped beside a worker');
paused('on');
leave_rollback('x', 'gone_too');
is(($node->psql('postgres', 'DROP DATABASE gone_too'))[0], 0, 'dropped with a rollback waiting');
if ($node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on')
{
	my $is_launcher = q{backend_type = 'undo launcher'};
	order_point($node, 'visit-horizon', 'wait', $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE $is_launcher"));
	$node->append_conf('postgresql.conf', 'zheap.rollback_paused = off');
	$node->reload;
	ok(wait_at_point($node, 'visit-horizon'), 'the launcher looks for what a dropped database has left');
	like($node->safe_psql('postgres', "SELECT state, query FROM pg_stat_activity WHERE $is_launcher"),
		qr/^active\|forgetting rollbacks of dropped database \d+$/, 'and says so');
	leave_point($node, 'visit-horizon');
}
paused('off');
all_undone('dropped databases');
leave_rollback('x', $_) for 'src', 'copy_wal_log', 'copy_file_copy';
kill_server($node);
ok(start_after_kill($node), 'start after a kill with three databases to roll back');
all_undone('three databases, one worker');
is($node->safe_psql($_, "$digest x"), $expected, "rows of $_") for 'src', 'copy_wal_log', 'copy_file_copy';
check_tables($node, $_, $_) for 'src', 'copy_wal_log';

# --- the extension: can't go while it has tables; then it can, with rollbacks
# waiting, and come again
paused('on');
leave_rollback('x', 'src');
my ($rc, $out, $err) = $node->psql('src', 'DROP EXTENSION zheap_am');
like($err, qr/cannot drop extension zheap_am because other objects depend on it/, 'not with a table');
$node->safe_psql('src', 'ALTER TABLE x SET ACCESS METHOD heap; DROP EXTENSION zheap_am;');
is($node->safe_psql('src', "$digest x"), $expected, 'the table is a heap');
paused('off');
$node->safe_psql('src', 'CREATE EXTENSION zheap_am; ALTER TABLE x SET ACCESS METHOD zheap;');
leave_rollback('x', 'src');
all_undone('with the extension created again');
is($node->safe_psql('src', "$digest x"), $expected, 'rows are right');
leave_rollback('x', 'copy_wal_log');
$node->safe_psql('copy_wal_log', 'DROP EXTENSION zheap_am CASCADE');
all_undone('extension dropped with its tables');
check_tables($node, 'extension dropped and created', 'src');
undo_quiet($node, 'in the end');
$node->stop;
log_is_clean($node, qr/terminated by signal 9|out of background worker slots/);
done_testing();
