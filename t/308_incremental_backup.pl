# Incremental backups (17 and later) of zheap tables and their undo: a chain that
# is combined starts, holds what the server had, and follows it as a standby.
# Between the backups logs grow and are truncated, so that the last one takes
# blocks from an older one that the server has emptied since.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('primary', allows_streaming => 1, conf => q{
autovacuum = off
wal_keep_size = 512MB
zheap.undo_log_rest_size = 256kB
});
plan skip_all => 'no incremental backups' if $node->pg_version < 17;
$node->append_conf('postgresql.conf', 'summarize_wal = on');
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (k int PRIMARY KEY, c int, t text) USING zheap;
CREATE INDEX ON x (c);
CREATE TABLE h (k int PRIMARY KEY, c int, t text) USING heap;
INSERT INTO x SELECT g, 0, repeat('x', g % 60) FROM generate_series(1, 3000) g;
INSERT INTO x SELECT g, 0, string_agg(md5((g * i)::text), '') FROM generate_series(3001, 3010) g, generate_series(1, 500) i GROUP BY g;
INSERT INTO h TABLE x;
});
my $differ = 'SELECT count(*) FROM ((TABLE x EXCEPT ALL TABLE h) UNION ALL (TABLE h EXCEPT ALL TABLE x)) d';
my $last;

# the same to both tables
sub change
{
	my ($sql) = @_;
	$node->safe_psql('postgres', join ';', 'BEGIN', (map { $sql =~ s/\bT\b/$_/gr } 'x', 'h'), 'COMMIT');
}

sub take
{
	my ($name) = @_;
	$node->backup($name, backup_options => $last ? [ '--incremental', $node->backup_dir . "/$last/backup_manifest" ] : []);
	$last = $name;
}

sub log_blocks
{
	return $node->safe_psql('postgres', q{SELECT coalesce(sum(size), 0) / 8192
FROM pg_ls_dir('base/9') f, LATERAL pg_stat_file('base/9/' || f) WHERE f::int BETWEEN 100 AND 999999});
}

# --- a full backup of big logs, kept by a snapshot; two kinds of open ends
my $snapshot = session($node);
ask($snapshot, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM x');
change("UPDATE T SET c = c + 1, t = 'long enough for the old one to be kept in undo ' || k") for 1 .. 6;
$node->safe_psql('postgres', q{BEGIN; UPDATE x SET c = -1 WHERE k <= 50; UPDATE h SET c = -1 WHERE k <= 50; PREPARE TRANSACTION 'p'});
my $running = session($node);
ask($running, 'BEGIN; UPDATE x SET c = -2 WHERE k BETWEEN 100 AND 300; DELETE FROM x WHERE k BETWEEN 301 AND 350');
my $big = log_blocks();
take('full');

# --- the logs are truncated, values are replaced
ask($snapshot, 'COMMIT');
ask($running, 'ROLLBACK');
$node->safe_psql('postgres', q{COMMIT PREPARED 'p'});
undo_quiet($node, 'before the second backup');
ok($node->poll_query_until('postgres', qq{SELECT coalesce(sum(size), 0) / 8192 < $big / 2
FROM pg_ls_dir('base/9') f, LATERAL pg_stat_file('base/9/' || f) WHERE f::int BETWEEN 100 AND 999999}),
	'logs are truncated');
change("UPDATE T SET t = overlay(t placing 'changed' from 100) WHERE k > 3000");
change('DELETE FROM T WHERE k BETWEEN 1000 AND 1200');
take('second');

# --- they grow again; a table gets a new file, another one is new
$node->safe_psql('postgres', 'VACUUM FULL x');
ask($snapshot, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM x');
change('UPDATE T SET c = c + 1 WHERE k < 500');
$node->safe_psql('postgres', 'CREATE TABLE y USING zheap AS TABLE x');
ask($running, 'BEGIN; UPDATE x SET c = -3 WHERE k BETWEEN 600 AND 900; INSERT INTO x SELECT g, g FROM generate_series(5001, 5300) g');
take('third');
change('UPDATE T SET c = c + 1 WHERE k NOT BETWEEN 600 AND 900');
my $digest = tables_digest($node, ['x']);

# --- by itself
my @prior = ('full', 'second');
my $alone = PostgreSQL::Test::Cluster->new('alone');
$alone->init_from_backup($node, 'third', combine_with_prior => \@prior);
$alone->start;
is($alone->safe_psql('postgres', $differ), '0', 'combined: rows are those of heap');
$alone->safe_psql('postgres', 'SELECT pg_zheap_drain_undo()');
is($alone->safe_psql('postgres', $differ), '0', '... when what was running is rolled back, too');
ok(check_tables($alone, 'combined'), '... tables are sound');
my $held = session($alone);
ask($held, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM x');
$alone->safe_psql('postgres', "UPDATE $_ SET c = c + 1, t = 'so long that undo grows beyond what it was once ' || k")
  for ('x', 'h') x 8;
is($alone->safe_psql('postgres', $differ), '0', '... rows can be changed, with more undo than before');
like(ask($held, 'SELECT count(*) FROM x WHERE c >= 0; COMMIT'), qr/^\d+$/, '... an old snapshot reads');
finish_session($held);
undo_quiet($alone, 'combined');
$alone->stop;

# --- as a standby, which becomes a primary
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'third', combine_with_prior => \@prior, has_streaming => 1);
$standby->append_conf('postgresql.conf', "wal_consistency_checking = 'zheap'");
$standby->start;
$node->wait_for_catchup($standby);
is(tables_digest($standby, ['x']), $digest, 'as a standby: rows are those of the primary');
ask($running, 'ROLLBACK');
finish_session($_) for $snapshot, $running;
change('UPDATE T SET c = c + 1');
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $differ), '0', '... also after further changes');
$node->stop;
$standby->promote;
undo_quiet($standby, 'promoted');
is($standby->safe_psql('postgres', $differ), '0', 'promoted: rows are those of heap');
ok(check_tables($standby, 'promoted'), '... tables are sound');
$standby->stop;
log_is_clean($_) for $node, $alone, $standby;
done_testing();
