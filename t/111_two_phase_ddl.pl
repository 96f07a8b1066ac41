# Prepared transactions hold their undo and end rightly in another session
# while their table is vacuumed, gets columns, goes to another tablespace and
# the server is killed or fails over in between.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('prepared', allows_streaming => 1, conf => q{
autovacuum = off
allow_in_place_tablespaces = on
wal_consistency_checking = 'zheap'
});
$node->start;
$node->safe_psql('postgres', q{CREATE TABLESPACE other LOCATION ''});
my $standby = zheap_standby($node, conf => "max_standby_streaming_delay = 0\n");
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE x (k int PRIMARY KEY, c int, t text) USING zheap;
CREATE TABLE h (k int PRIMARY KEY, c int, t text);
INSERT INTO x SELECT g, g, repeat('x', 40) FROM generate_series(1, 2000) g;
INSERT INTO h TABLE x;
CREATE TABLE idle (a int) USING zheap;
});

sub same_as_heap
{
	my ($n, $what) = @_;
	is( $n->safe_psql('postgres', q{
SELECT count(*) FROM ((SELECT k, c, t FROM x EXCEPT ALL SELECT k, c, t FROM h)
UNION ALL (SELECT k, c, t FROM h EXCEPT ALL SELECT k, c, t FROM x)) d}), '0', "$what: zheap has what heap has");
}

sub prepare
{
	my ($gid, $from) = @_;
	$node->safe_psql('postgres', 'BEGIN;' . join('', map { qq{
UPDATE $_ SET c = c + 1000 WHERE k BETWEEN $from AND $from + 99;
SAVEPOINT a; DELETE FROM $_ WHERE k BETWEEN $from + 100 AND $from + 149; RELEASE a;
SAVEPOINT a; UPDATE $_ SET t = 'never' WHERE k BETWEEN $from + 150 AND $from + 180; ROLLBACK TO a;
UPDATE $_ SET t = repeat('long', 150) WHERE k BETWEEN $from + 150 AND $from + 160;
INSERT INTO $_ (k, c) SELECT g, g FROM generate_series(10000 + $from, 10049 + $from) g;}} qw(x h))
		  . "PREPARE TRANSACTION '$gid'");
}
prepare('commit 1', 1);
prepare('roll back 1', 301);
prepare('commit 2', 601);
prepare('roll back 2', 901);

# --- vacuumed, and its other rows changed under it
sub others
{
	my ($what) = @_;
	$node->safe_psql('postgres', 'UPDATE x SET c = c + 1 WHERE k BETWEEN 1500 AND 1600; UPDATE h SET c = c + 1 WHERE k BETWEEN 1500 AND 1600; '
		  . 'BEGIN; UPDATE x SET c = 0 WHERE k > 1300; ROLLBACK; VACUUM x; VACUUM (FREEZE, INDEX_CLEANUP on) x');
	same_as_heap($node, $what);
	my ($ret, $out, $err) = $node->psql('postgres', 'SELECT 1 FROM x WHERE k = 610 FOR UPDATE NOWAIT');
	like($err, qr/could not obtain lock/, "$what: rows stay locked");
}
others('vacuum');
cmp_ok($node->safe_psql('postgres', 'SELECT pg_zheap_undo_size()'), '>', 0, 'undo is held');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_zheap_undo_holders WHERE kind = 'prepared transaction'}), '4', 'by four');

# ALTER TABLE has to wait for whoever holds locks on the table, prepared or not
my ($ret, $out, $err) = $node->psql('postgres', q{SET lock_timeout = '200ms'; ALTER TABLE x SET TABLESPACE other});
like($err, qr/lock timeout/, 'SET TABLESPACE waits, as on heap');
kill_server($node);
ok(start_after_kill($node), 'start after a kill');
others('after a kill');

$node->safe_psql('postgres', q{COMMIT PREPARED 'commit 1'});
same_as_heap($node, 'commit after a kill');
# rolled back, but not yet undone when the table is altered and moved
set_conf($node, 'zheap.rollback_paused' => 'on', 'zheap.rollback_foreground_size' => '0');
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'roll back 1'});
same_as_heap($node, 'rollback');
$node->safe_psql('postgres', q{COMMIT PREPARED 'commit 2'; ROLLBACK PREPARED 'roll back 2'});
same_as_heap($node, 'of all');
$node->safe_psql('postgres', q{ALTER TABLE x ADD COLUMN d int DEFAULT 7; ALTER TABLE x SET TABLESPACE other});
same_as_heap($node, 'moved with rollbacks pending');
is($node->safe_psql('postgres', 'SELECT count(*), min(d), max(d) FROM x'), $node->safe_psql('postgres', 'SELECT count(*), 7, 7 FROM h'), 'its new column');
$node->safe_psql('postgres', 'VACUUM x; UPDATE x SET c = c + 1 WHERE k < 50; UPDATE h SET c = c + 1 WHERE k < 50;');
set_conf($node, 'zheap.rollback_paused' => 'off');
is($node->safe_psql('postgres', 'SELECT pg_zheap_drain_undo()'), 't', 'rollback finds the moved table');
same_as_heap($node, 'undone');
undo_quiet($node, 'when all have ended');
check_tables($node, 'when all have ended');

# --- prepared, then failover; the new primary decides
prepare('commit 3', 1151);
prepare('roll back 3', 301);
$node->safe_psql('postgres', q{SELECT pg_current_xact_id()});
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
same_as_heap($standby, 'standby');
kill_server($node);
$standby->promote;
is($standby->safe_psql('postgres', 'SELECT string_agg(gid, $$,$$ ORDER BY gid) FROM pg_prepared_xacts'), 'commit 3,roll back 3', 'prepared transactions survive failover');
same_as_heap($standby, 'promoted');
$standby->safe_psql('postgres', q{UPDATE x SET c = c + 1 WHERE k > 1500; UPDATE h SET c = c + 1 WHERE k > 1500; VACUUM x;});
$standby->safe_psql('postgres', q{COMMIT PREPARED 'commit 3'; ROLLBACK PREPARED 'roll back 3'});
same_as_heap($standby, 'both ended');
undo_quiet($standby, 'after failover');
check_tables($standby, 'after failover');
$standby->stop;
log_is_clean($_) for $node, $standby;
done_testing();
