# CREATE DATABASE copies pages but not undo: a source with aborted changes
# that nobody has rolled back yet is drained first, or refused.  Copies made
# without the library that can't be visited, as their files are lost or a table is
# locked, hold up what may be in them, and nothing else.
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
	my ($db, $more) = (@_, ('src', '')[ @_ .. 1 ]);
	set_conf($node, 'zheap.rollback_paused' => 'on');
	$node->safe_psql($db, q{
SET zheap.rollback_foreground_size = 0;
BEGIN; INSERT INTO x SELECT generate_series(1, 500); } . "$more ROLLBACK;");
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
# it isn't waited for: what aborts now is rolled back, what may be in it is kept
sub others_go_on
{
	my ($what, @unreachable) = @_;
	ok( $node->poll_query_until('bare_second', q{SELECT coalesce(string_agg(name, ' ' ORDER BY name), '') FROM pg_stat_zheap_undo_holders
WHERE kind = 'unreachable database'}, join(' ', sort @unreachable)), "$what: the view names @unreachable");
	my $xid = $node->safe_psql('bare_second', q{
SET zheap.rollback_foreground_size = 0;
BEGIN; SELECT pg_current_xact_id(); UPDATE x SET a = -a; ROLLBACK});
	# pages of undo, of which it has several, are counted for the oldest
	# transaction on them
	discard_pass($node, 'bare_second');
	ok( $node->poll_query_until('bare_second', qq{SELECT count(*) = 0 FROM pg_stat_progress_zheap_rollback WHERE xid >= '$xid'}),
		"$what: what aborts elsewhere is rolled back");
	isnt($node->safe_psql('bare_second', 'SELECT count(*) FROM pg_stat_progress_zheap_rollback'), '0', "$what: what may be there is kept");
	is($node->safe_psql('bare_second', q{SELECT pg_zheap_drain_undo('0 s')}), 'f', "$what: and not taken for done");
	ok( $node->safe_psql('bare_second', 'SELECT u FROM zheap_horizons()') <= $node->safe_psql('bare_second', q{SELECT min(xid::text::bigint) FROM pg_stat_progress_zheap_rollback}),
		"$what: nor is it passed by the horizon");
}

others_go_on('a locked table', 'heir');
$node->safe_psql('heir', q{COMMIT PREPARED 'lock'});
$node->poll_query_until('bare_second', q{SELECT pg_zheap_drain_undo('1 s')});
is($node->safe_psql('bare_second', 'SELECT pg_zheap_drain_undo()'), 't', 'rolled back, the source is gone');
$node->safe_psql('bare_second', 'INSERT INTO x VALUES (2); DELETE FROM x WHERE a = 2') for 1 .. 3;
$node->poll_query_until('bare_second', 'SELECT pg_zheap_undo_size() = 0');
is($node->safe_psql('heir', $rows), $right, 'heir: only committed rows');
check_tables($node, 'heir', 'heir');

# --- copies whose files are lost, and a database with a rollback of its own
leave_rollback($_) for 'bare_wal_log', 'heir';
$node->append_conf('postgresql.conf', 'zheap.rollback_paused = off');
my %oid = map { /(\S+)\|(\d+)/ } split /\n/, $node->safe_psql('postgres', 'SELECT datname, oid FROM pg_database');
$node->stop;
put($node->data_dir . '/postgresql.conf', $without);
$node->start;
for my $db ('lost_one', 'lost_two')
{
	$node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE heir");
	$oid{$db} = $node->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = '$db'");
}
$node->stop;
my $base = $node->data_dir . '/base';
rename "$base/$oid{$_}", "$base/lost$oid{$_}" or die for 'lost_one', 'bare_wal_log';
rename "$base/$oid{lost_two}/PG_VERSION", "$base/$oid{lost_two}/lost" or die;
put($node->data_dir . '/postgresql.conf', $conf);
$node->start;
others_go_on('lost files', 'bare_wal_log', 'lost_one', 'lost_two');
is(($node->psql('postgres', 'CREATE DATABASE fresh'))[2], '', 'databases are made meanwhile');
# nor is it forgotten when the row is younger, the source gone and the launcher another one
$node->safe_psql('postgres', 'ALTER DATABASE lost_one CONNECTION LIMIT 50; ALTER DATABASE lost_two RENAME TO lost_too');
$node->safe_psql('postgres', 'DROP DATABASE heir');
my $launcher = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'undo launcher'});
$node->safe_psql('postgres', "SELECT pg_terminate_backend($launcher)");
$node->poll_query_until('bare_second', qq{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'undo launcher' AND pid <> $launcher AND query <> ''});
others_go_on('another launcher', 'bare_wal_log', 'lost_one', 'lost_too');
rename "$base/lost$oid{$_}", "$base/$oid{$_}" or die for 'lost_one', 'bare_wal_log';
$node->poll_query_until('bare_second', q{SELECT count(*) = 1 FROM pg_stat_zheap_undo_holders WHERE kind = 'unreachable database'});
others_go_on('some files are back', 'lost_too');
unlike($node->safe_psql('bare_second', 'SELECT DISTINCT datname FROM pg_stat_progress_zheap_rollback'), qr/bare_wal_log/, 'the database that is back is done');
$node->safe_psql('postgres', 'DROP DATABASE lost_too');
ok($node->poll_query_until('bare_second', q{SELECT pg_zheap_drain_undo('1 s')}), 'all is rolled back when the last one is dropped');
$node->safe_psql('bare_second', 'INSERT INTO x VALUES (2); DELETE FROM x WHERE a = 2') for 1 .. 3;
ok($node->poll_query_until('bare_second', 'SELECT pg_zheap_undo_size() = 0 AND u = h FROM zheap_horizons()'), 'undo is drained');
for my $db ('lost_one', 'bare_wal_log', 'bare_second')
{
	is($node->safe_psql($db, $rows), $right, "$db: only committed rows");
	check_tables($node, $db, $db);
}

# --- undo that can't be read for a while says nothing of what is in copies
leave_rollback('bare_second', 'UPDATE x SET a = -a; ' x 20);
$node->append_conf('postgresql.conf', 'zheap.rollback_paused = off');
$node->stop;
put($node->data_dir . '/postgresql.conf', $without);
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE blind TEMPLATE bare_second');
$node->stop;
my ($log) = grep { -s > 20 * 8192 } glob "$base/9/1??";
my $page = substr(content($log), 8192 * 10, 8192);
overwrite($log, 8192 * 10, 'damaged!' x 1024);
put($node->data_dir . '/postgresql.conf', $conf);
$node->start;
ok($node->poll_query_until('bare_second', q{SELECT count(*) > 0 FROM pg_stat_zheap_undo_holders WHERE kind = 'damaged undo log'}), 'undo is damaged');
$node->safe_psql('postgres', 'SELECT pg_sleep(2.5)');
overwrite($log, 8192 * 10, $page);
ok($node->poll_query_until('bare_second', q{SELECT pg_zheap_drain_undo('1 s')}), 'all is rolled back when it can be read again');
for my $db ('blind', 'bare_second')
{
	is($node->safe_psql($db, $rows), $right, "$db: only committed rows");
	check_tables($node, $db, $db);
}
my $warnings = () = slurp_file($node->logfile) =~ /WARNING:.* database "(?:lost|bare)/g;
is($warnings, 6, 'each is told of, once by each launcher');
$node->stop;
log_is_clean($node, qr/could not roll back (?:in database|copied pages)|undo log|invalid page in block/);
done_testing();
