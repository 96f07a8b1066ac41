# A standby whose settings allow fewer processes than its primary's takes over
# all undo logs of the primary, also those that were made after it started.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $primary = zheap_node('many', allows_streaming => 1, conf => q{
max_connections = 20
max_wal_senders = 3
max_prepared_transactions = 2
autovacuum_max_workers = 200
autovacuum = off
fsync = off
zheap.undo_log_rest_size = 256kB
});
# what makes room for so many workers since 18
$primary->append_conf('postgresql.conf', 'autovacuum_worker_slots = 200') if $primary->pg_version >= 18;
$primary->start;
$primary->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE t (a int PRIMARY KEY, b text) USING zheap;
CREATE TABLE x (a int, b text) USING zheap;
INSERT INTO t SELECT g, repeat('x', 300) FROM generate_series(1, 1500) g;
});
my $standby = zheap_standby($primary, conf => 'autovacuum_max_workers = 1' .
	($primary->pg_version >= 18 ? "\nautovacuum_worker_slots = 1" : ''));

# under an old snapshot all logs rest when they are full, and new ones are made
my $s = session($primary);
ask($s, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
my $logs = 'SELECT count(*) FROM pg_stat_zheap_undo';
for my $i (1 .. 400)
{
	$primary->safe_psql('postgres', "UPDATE t SET b = repeat(chr(65 + $i % 26), 300)");
	last if $primary->safe_psql('postgres', $logs) >= 120;
	select(undef, undef, undef, 0.1);
}
cmp_ok($primary->safe_psql('postgres', $logs), '>=', 120, 'the primary has many logs');

# left behind by the primary: an open transaction in one of the last logs
my $o = session($primary);
ask($o, q{BEGIN; UPDATE t SET b = 'never' WHERE a <= 700; INSERT INTO x SELECT g, 'never' FROM generate_series(1, 500) g});
my $digest = q{SELECT count(*), count(DISTINCT b), sum(length(b)) FROM t};
my $expected = $primary->safe_psql('postgres', "UPDATE x SET a = 0; $digest");
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $digest), $expected, 'the standby reads all logs');
$primary->stop('immediate');
$standby->promote;
is($standby->safe_psql('postgres', $digest), $expected, 'the new primary reads its tables');
undo_quiet($standby, 'after the failover');
is($standby->safe_psql('postgres', "$digest; SELECT count(*) FROM x"), "$expected\n0", 'and has rolled back what was open');
$standby->safe_psql('postgres', q{UPDATE t SET b = 'z'});
$standby->restart;
is($standby->safe_psql('postgres', 'SELECT count(*) FROM t WHERE b = \'z\''), '1500', 'after a restart, too');
check_tables($standby, 'after the failover');
log_is_clean($standby);
$standby->stop;
done_testing();
