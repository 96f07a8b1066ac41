# Settings of a server or a database that are meant for its sessions don't keep
# launcher and workers from their work, nor have them read damaged pages.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('settings', conf => q{
autovacuum = off
fsync = off
zheap.rollback_foreground_size = 0
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION zheap_am; CREATE ROLE nobody; CREATE DATABASE d; CREATE DATABASE gone');
for my $db ('d', 'gone')
{
	$node->safe_psql($db, q{
CREATE EXTENSION zheap_am;
CREATE TABLE t (a int, b text) USING zheap;
INSERT INTO t SELECT g, repeat('x', 300) FROM generate_series(1, 300) g;
CREATE TABLE y (a int);
CREATE TABLE later (a int) USING zheap;});
}
my @settings = ('statement_timeout = 1', 'lock_timeout = 1', 'idle_in_transaction_session_timeout = 1',
	'default_transaction_isolation = serializable', 'default_transaction_read_only = on',
	'default_transaction_deferrable = on', q{search_path = 'nowhere'}, 'zero_damaged_pages = on',
	'ignore_checksum_failure = on', 'exit_on_error = on', 'role = nobody');
$node->safe_psql('postgres', "ALTER DATABASE d SET $_") for @settings;

# the tests' own sessions do without them
$ENV{PGOPTIONS} = '-c default_transaction_deferrable=off -c default_transaction_read_only=off'
  . ' -c default_transaction_isolation=read\ committed -c statement_timeout=0 -c lock_timeout=0'
  . ' -c idle_in_transaction_session_timeout=0 -c search_path=public'
  . ' -c ignore_checksum_failure=off -c exit_on_error=off -c role=none';
my $abort = 'BEGIN; UPDATE t SET b = repeat(chr(65 + a % 26), 300); ROLLBACK;';
my $digest = q{SELECT count(*), count(DISTINCT b), min(left(b, 1)) FROM public.t};

# a read-write serializable transaction: deferrable ones wait for its end
my $s = session($node, 'd');
is(ask($s, "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE; INSERT INTO y VALUES (1); SELECT count(*) FROM y"), '1', 'a serializable transaction');
is(($node->psql('d', $abort))[2], '', 'a rollback is left behind');
ok($node->poll_query_until('postgres', q{SELECT pg_zheap_drain_undo('1 s')}), 'it is done beside a serializable transaction');
ask($s, 'COMMIT');
finish_session($s);

# the launcher, too, where they are the server's
$node->safe_psql('postgres', q{
ALTER SYSTEM SET default_transaction_isolation = 'serializable';
ALTER SYSTEM SET default_transaction_deferrable = on;
ALTER SYSTEM SET default_transaction_read_only = on;
ALTER SYSTEM SET statement_timeout = '1s';});
$node->restart;
$s = session($node, 'd');
ask($s, "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE; INSERT INTO y VALUES (1); SELECT count(*) FROM y");
is(($node->psql('d', $abort))[2], '', 'a rollback is left behind');
set_conf($node, 'zheap.rollback_paused' => 'on');
is(($node->psql('gone', $abort))[2], '', 'another one in a database that is dropped');
$node->safe_psql('postgres', 'DROP DATABASE gone WITH (FORCE)');
set_conf($node, 'zheap.rollback_paused' => 'off');
ok($node->poll_query_until('postgres', q{SELECT pg_zheap_drain_undo('1 s')}), 'both are done');
ask($s, 'COMMIT');
finish_session($s);
$node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
$node->restart;

# a page that can't be read is not taken for an empty one
set_conf($node, 'zheap.rollback_paused' => 'on');
is(($node->psql('d', $abort))[2], '', 'a rollback is left behind');
is(($node->psql('d', 'BEGIN; INSERT INTO later SELECT generate_series(1, 10); ROLLBACK'))[2], '', 'and another one behind it');
my $file = $node->data_dir . '/' . $node->safe_psql('d', q{SELECT pg_relation_filepath('public.t')});
$node->safe_psql('postgres', 'CHECKPOINT');
$node->stop;
my $whole = content($file);
overwrite($file, 8192 + 4000, 'damage' x 10);
$node->append_conf('postgresql.conf', 'zheap.rollback_paused = off');
$node->start;
my $log = $node->logfile;
for (1 .. 300)
{
	last if slurp_file($log) =~ /could not roll back.*invalid page in block 1/;
	select(undef, undef, undef, 0.2);
}
like(slurp_file($log), qr/could not roll back.*invalid page in block 1/, 'the worker reports the page');
ok( $node->poll_query_until('d', q{SELECT count(*) = 0 FROM pg_stat_progress_zheap_rollback WHERE relid = 'later'::regclass}),
	'and goes on with the next one');
unlike(slurp_file($log), qr/FATAL:.*invalid page/, 'no worker has ended by the error');
$node->stop;
isnt(content($file), $whole, 'the others are rolled back, maybe');
overwrite($file, 8192, substr($whole, 8192, 8192));
$node->start;
undo_quiet($node, 'when the page is back');
is($node->safe_psql('d', $digest), '300|1|x', 'all rows are as before');
$node->stop;
done_testing();
