# A base backup taken under load passes pg_verifybackup, starts, and is
# recovered to a point inside of transactions: what committed before is there,
# what was in flight is not, and is undone; pg_checksums finds nothing wrong.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('primary', has_archiving => 1, allows_streaming => 1, conf => q{
autovacuum = off
full_page_writes = off
wal_consistency_checking = 'zheap'
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (k int PRIMARY KEY, c int, t text) USING zheap;
CREATE TABLE h (k int PRIMARY KEY, c int, t text);
INSERT INTO x SELECT g, 0, repeat('x', 30) FROM generate_series(1, 2000) g;
INSERT INTO h TABLE x;
});
my $differ = 'SELECT count(*) FROM ((TABLE x EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE x)) d';

# --- a backup while pages change, with transactions of every state open
my $running = session($node);
ask($running, 'BEGIN; UPDATE x SET c = c + 1000 WHERE k <= 500; SAVEPOINT a; DELETE FROM x WHERE k BETWEEN 501 AND 600; RELEASE a');
$node->safe_psql('postgres', q{BEGIN; UPDATE x SET c = c + 7 WHERE k BETWEEN 1900 AND 1950;
UPDATE h SET c = c + 7 WHERE k BETWEEN 1900 AND 1950; PREPARE TRANSACTION 'p'});
my $script = $node->basedir . '/load.sql';
append_to_file($script, q{
\set k random(601, 1800)
BEGIN;
UPDATE x SET c = c + 1, t = repeat('y', 30 + :k % 40) WHERE k BETWEEN :k AND :k + 5;
UPDATE h SET c = c + 1, t = repeat('y', 30 + :k % 40) WHERE k BETWEEN :k AND :k + 5;
COMMIT;
});
my ($out, $err) = ('', '');
my $bench = IPC::Run::start([ $node->installed_command('pgbench'), '-n', '-c', 2, '-T', 4, '-R', 100,
		'--max-tries', 100, '-f', $script, $node->connstr('postgres') ], '>', \$out, '2>', \$err);
sleep 1;
my $backup = $node->backup_dir . '/base';
command_ok([ 'pg_basebackup', '--no-sync', '-D', $backup, '-h', $node->host, '-p', $node->port, '--checkpoint=fast' ], 'base backup under load');
command_ok([ 'pg_verifybackup', $backup ], 'pg_verifybackup');
$bench->finish;
unlike($err, qr/ERROR|PANIC/, 'load ran without errors') or note($err);

# --- points to go back to
$node->safe_psql('postgres', 'UPDATE x SET c = c + 1 WHERE k > 1990; UPDATE h SET c = c + 1 WHERE k > 1990');
my $inside = session($node);
ask($inside, q{BEGIN; UPDATE x SET t = 'first half' WHERE k BETWEEN 1500 AND 1600; INSERT INTO x SELECT g, 0, 'new' FROM generate_series(5001, 5100) g});
my $digest = tables_digest($node, ['x', 'h']);
my $lsn = $node->safe_psql('postgres', q{SELECT pg_create_restore_point('inside of a transaction')});
ask($inside, q{UPDATE x SET t = 'second half' WHERE k BETWEEN 1500 AND 1700; COMMIT});
ask($running, 'ROLLBACK');
$node->safe_psql('postgres', q{COMMIT PREPARED 'p'; DELETE FROM x WHERE k % 2 = 0; SELECT pg_switch_wal()});
finish_session($_) for $running, $inside;
# archives what is complete
$node->stop;

my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($node, 'base', has_restoring => 1);
$restored->append_conf('postgresql.conf', q{
recovery_target_name = 'inside of a transaction'
recovery_target_action = promote
});
$restored->start;
$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
is(tables_digest($restored, ['x', 'h']), $digest, 'the rows of that point, the moment it is open');
is($restored->safe_psql('postgres', $differ), '0', 'those of heap');
is($restored->safe_psql('postgres', 'SELECT count(*) FROM x WHERE k > 5000'), '0', 'nothing of the first half');
is($restored->safe_psql('postgres', 'SELECT pg_zheap_drain_undo()'), 't', 'what was in flight is rolled back');
is(tables_digest($restored, ['x', 'h']), $digest, 'then as well');
is($restored->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts'), 'p', 'the prepared transaction is there');
$restored->safe_psql('postgres', q{COMMIT PREPARED 'p'; UPDATE x SET c = c + 1; UPDATE h SET c = c + 1;});
is($restored->safe_psql('postgres', $differ), '0', 'and commits; rows can be written');
undo_quiet($restored, 'after recovery');
check_tables($restored, 'after recovery');
$restored->stop;
command_ok([ 'pg_checksums', '--check', '-D', $restored->data_dir ], 'pg_checksums, recovered cluster');
command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], 'pg_checksums, old cluster');
command_ok([ 'pg_checksums', '--disable', '--no-sync', '-D', $restored->data_dir ], 'checksums off');
command_ok([ 'pg_checksums', '--enable', '--no-sync', '-D', $restored->data_dir ], 'and on');
$restored->start;
is($restored->safe_psql('postgres', $differ), '0', 'rows can be read');
$restored->stop;
log_is_clean($_) for $node, $restored;
done_testing();
