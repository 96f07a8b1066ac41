# CREATE DATABASE copies pages but not undo: a source with aborted changes
# that nobody has rolled back yet is drained first, or refused.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('createdb');
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE src');
$node->safe_psql('src', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (a int) USING zheap;
INSERT INTO x VALUES (1);});

sub leave_rollback
{
	my ($db) = (@_, 'src');
	set_conf($node, 'zheap.rollback_paused' => 'on');
	$node->safe_psql($db, q{
SET zheap.rollback_foreground_size = 0;
BEGIN; INSERT INTO x SELECT generate_series(1, 500); ROLLBACK;});
}

for my $strategy ('wal_log', 'file_copy')
{
	leave_rollback();
	my ($rc, $out, $err) = $node->psql('postgres',
		"CREATE DATABASE copy_$strategy TEMPLATE src STRATEGY $strategy");
	isnt($rc, 0, "$strategy: refused while the rollback is paused");
	like($err, qr/aborted transactions that are not rolled back yet/,
		"$strategy: and told why");

	set_conf($node, 'zheap.rollback_paused' => 'off');
	$node->safe_psql('postgres',
		"CREATE DATABASE copy_$strategy TEMPLATE src STRATEGY $strategy");
	# U and H pass the aborted transaction
	$node->safe_psql('src', 'INSERT INTO x VALUES (2); DELETE FROM x WHERE a = 2')
	  for 1 .. 3;
	is($node->safe_psql("copy_$strategy", 'SELECT count(*) FROM x'), '1',
		"$strategy: the copy has the committed row only");
	is($node->safe_psql("copy_$strategy", q{SELECT count(*) FROM zheap_check('x')}),
		'0', "$strategy: and is in order");
}

# --- a session that leaves the source while CREATE DATABASE waits for it, its
# rollback not done: refused, or it left before and was rolled back
$node->safe_psql('src', q{INSERT INTO x SELECT generate_series(1001, 3000)});
my $s = session($node, 'src');
ask($s, 'SET zheap.rollback_foreground_size = 0; BEGIN; UPDATE x SET a = -a; INSERT INTO x SELECT generate_series(1, 500)');
send_sql($s, 'SELECT pg_sleep(7); ROLLBACK');
my ($rc, $out, $err) = $node->psql('postgres', 'CREATE DATABASE copy_late TEMPLATE src');
finish_session($s);
if ($rc != 0)
{
	like($err, qr/source database "src" is being accessed by other users/, 'refused while a session is there');
	$node->safe_psql('postgres', 'CREATE DATABASE copy_late TEMPLATE src');
}
$node->safe_psql('src', 'SELECT pg_zheap_drain_undo()');
$node->safe_psql('src', 'INSERT INTO x VALUES (2); DELETE FROM x WHERE a = 2') for 1 .. 3;
is($node->safe_psql('copy_late', 'SELECT count(*), min(a) FROM x'), '2001|1', 'the copy has committed rows only');

# --- who may not copy a database doesn't keep its sessions out either
$node->safe_psql('postgres', 'CREATE ROLE maker LOGIN CREATEDB');
$s = session($node, 'src');
ask($s, 'SELECT 1');
($rc, $out, $err) = $node->psql('postgres', 'SET statement_timeout = 3000; CREATE DATABASE copy_not TEMPLATE src',
	extra_params => [ '-U', 'maker' ]);
isnt($rc, 0, 'refused to who may not copy');
like($err, qr/permission denied to copy database "src"/, 'at once, though sessions are there');
finish_session($s);
$node->safe_psql('postgres', 'ALTER DATABASE src OWNER TO maker');
$node->safe_psql('postgres', 'CREATE DATABASE copy_own TEMPLATE src', extra_params => [ '-U', 'maker' ]);
is($node->safe_psql('copy_own', 'SELECT count(*) FROM x'), '2001', 'the owner may');

# --- without the library: copies, a copy of a copy, one whose source is gone,
# one where the table is gone and one that nobody may connect to
leave_rollback();
$node->safe_psql('src', q{
SET zheap.rollback_foreground_size = 0;
CREATE UNLOGGED TABLE u (a int) USING zheap;
INSERT INTO u VALUES (1);
BEGIN; INSERT INTO u SELECT generate_series(2, 500); UPDATE x SET a = -a; ROLLBACK;});
my $rows = 'SELECT count(*), min(a), (SELECT count(*) FROM u) FROM x';
my $right = $node->safe_psql('src', $rows);
$node->append_conf('postgresql.conf', 'zheap.rollback_paused = off');
my $conf = slurp_file($node->data_dir . '/postgresql.conf');
(my $without = $conf) =~ s/^(shared_preload_libraries|zheap\.)/#$1/mg;
$node->stop;
put($node->data_dir . '/postgresql.conf', $without);
$node->start;
$node->safe_psql('postgres', $_)
  for 'CREATE DATABASE bare_wal_log TEMPLATE src STRATEGY wal_log',
  'CREATE DATABASE bare_file_copy TEMPLATE src STRATEGY file_copy',
  'CREATE DATABASE bare_second TEMPLATE bare_file_copy',
  'CREATE DATABASE bare_closed TEMPLATE src ALLOW_CONNECTIONS false',
  'VACUUM FREEZE pg_database',
  'ALTER DATABASE src RENAME TO bare_first',
  'CREATE DATABASE gone TEMPLATE bare_first',
  'DROP DATABASE gone';
$node->stop;
put($node->data_dir . '/postgresql.conf', $conf);
$node->start;
# a copy of a copy, at once: it waits
$node->safe_psql('postgres', 'CREATE DATABASE bare_late TEMPLATE bare_wal_log');
is($node->safe_psql('bare_first', 'SELECT pg_zheap_drain_undo()'), 't', 'rolled back');
$node->safe_psql('bare_first', 'INSERT INTO x VALUES (2); DELETE FROM x WHERE a = 2') for 1 .. 3;
$node->poll_query_until('bare_first', 'SELECT pg_zheap_undo_size() = 0');
$node->safe_psql('postgres', 'ALTER DATABASE bare_closed ALLOW_CONNECTIONS true');
for my $db (qw(bare_first bare_wal_log bare_file_copy bare_second bare_closed bare_late))
{
	is($node->safe_psql($db, $rows), $right, "$db: only committed rows");
	check_tables($node, $db, $db);
}

# the source is dropped without the library
leave_rollback('bare_first');
$node->append_conf('postgresql.conf', 'zheap.rollback_paused = off');
$node->stop;
put($node->data_dir . '/postgresql.conf', $without);
$node->start;
$node->safe_psql('postgres', $_) for 'CREATE DATABASE heir TEMPLATE bare_first', 'DROP DATABASE bare_first';
$node->safe_psql('heir', q{BEGIN; LOCK TABLE x IN ACCESS EXCLUSIVE MODE; PREPARE TRANSACTION 'lock'});
$node->stop;
put($node->data_dir . '/postgresql.conf', $conf);
$node->start;
ok( $node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
WHERE backend_type = 'undo survey worker' AND datname = 'heir' AND state = 'active' AND query = 'rolling back copied pages of table "x"' AND wait_event_type = 'Lock'}),
	'a survey worker says what it works on');
$node->safe_psql('heir', q{COMMIT PREPARED 'lock'});
is($node->safe_psql('bare_second', 'SELECT pg_zheap_drain_undo()'), 't', 'rolled back, the source is gone');
$node->safe_psql('bare_second', 'INSERT INTO x VALUES (2); DELETE FROM x WHERE a = 2') for 1 .. 3;
$node->poll_query_until('bare_second', 'SELECT pg_zheap_undo_size() = 0');
is($node->safe_psql('heir', $rows), $right, 'heir: only committed rows');
check_tables($node, 'heir', 'heir');
$node->stop;
log_is_clean($node);
done_testing();
