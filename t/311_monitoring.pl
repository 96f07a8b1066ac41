# The views for operators, each with the question that it answers: who holds
# undo and how much goes when that ends, who writes it, how far a rollback is,
# and what was done in all.  Counters survive a clean restart.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('monitoring', allows_streaming => 1, conf => q{
autovacuum = off
shared_buffers = 64MB
max_wal_size = 2GB
zheap.rollback_foreground_size = 0
zheap.log_rollback_min_duration = 0
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE a (k int PRIMARY KEY, v int) USING zheap;
CREATE TABLE b (k int PRIMARY KEY, v int, t text) USING zheap;
CREATE UNLOGGED TABLE u (k int) USING zheap;
INSERT INTO a SELECT g, 0 FROM generate_series(1, 5000) g;
INSERT INTO b SELECT g, 0, repeat('b', 50) FROM generate_series(1, 20000) g;
});

sub one { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub wait_for
{
	my ($query, $what) = @_;
	return ok($node->poll_query_until('postgres', $query), $what);
}
my $churn = q{UPDATE b SET v = v + 1, t = repeat(chr(97 + v % 26), 50) WHERE k <= 4000;};

# Is this holder the first, with more than so many bytes to give?
sub first_holder
{
	my ($where, $bytes, $what) = @_;
	return wait_for(qq{SELECT coalesce(bool_and($where AND bytes > $bytes AND held_bytes >= bytes), false)
		FROM (SELECT * FROM pg_stat_zheap_undo_holders LIMIT 1) h}, $what)
	  || diag(map { one("SELECT * FROM $_") . "\n" } qw(pg_stat_zheap_undo_holders pg_stat_zheap_undo_totals pg_replication_slots pg_stat_replication));
}

# --- who holds undo?  A snapshot, with a writer that is younger.
undo_quiet($node, 'at the start');
my $old = session($node);
my $pid = ask($old, 'SELECT pg_backend_pid()');
ask($old, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM a');
one($churn) for 1 .. 3;
my $young = session($node);
ask($young, 'BEGIN; INSERT INTO a VALUES (-1, 0)');
my $young_pid = ask($young, 'SELECT pg_backend_pid()');
one($churn) for 1 .. 2;
first_holder("kind = 'backend' AND pid = $pid AND state = 'idle in transaction' AND xact_start IS NOT NULL", 300000, 'the snapshot is named first, with what goes when it ends');
is(one("SELECT bytes, held_bytes > 100000 AND held_bytes < (SELECT held_bytes FROM pg_stat_zheap_undo_holders WHERE pid = $pid) FROM pg_stat_zheap_undo_holders WHERE pid = $young_pid"),
	'0|t', 'the writer behind it holds a part, but frees nothing by itself');
my $promised = one("SELECT bytes FROM pg_stat_zheap_undo_holders WHERE pid = $pid");
my $before = one('SELECT pg_zheap_undo_size()');
is(one("SELECT 'running transactions or snapshots' = ANY (kept_by) FROM pg_stat_zheap_undo_totals"), 't', 'the last pass says so, too');
ask($old, 'COMMIT');
wait_for("SELECT pg_zheap_undo_size() <= $before - $promised * 9 / 10", 'when it ends, that is what goes');
first_holder("kind = 'backend' AND pid = $young_pid", 100000, 'then the writer is first');

# --- who writes it?
ask($young, 'INSERT INTO u SELECT generate_series(1, 10)');
ask($young, 'SAVEPOINT s; UPDATE b SET v = -1 WHERE k <= 100; RELEASE s');
is(one("SELECT tables, subxacts, subxacts_overflowed, undo_records >= 102, undo_bytes BETWEEN 500 AND 100000, datname, xact_start IS NOT NULL FROM pg_stat_zheap_xacts WHERE pid = $young_pid"),
	'3|1|f|t|t|postgres|t', 'tables, subtransactions, records and bytes of a running transaction');
my ($records, $bytes) = split /\|/, one("SELECT undo_records, undo_bytes FROM pg_stat_zheap_xacts WHERE pid = $young_pid");
ask($young, 'UPDATE b SET v = -2 WHERE k BETWEEN 2001 AND 3000');
is(one("SELECT undo_records - $records, undo_bytes > $bytes + 5000 FROM pg_stat_zheap_xacts WHERE pid = $young_pid"), '1000|t', 'a record for each row updated');
is(one("SELECT sum(records) > 0 FROM pg_stat_zheap_undo WHERE pid = $young_pid"), 't', 'its logs tell, too');
ask($young, 'CREATE TABLE part (k int) PARTITION BY LIST (k)');
ask($young, "CREATE TABLE part$_ PARTITION OF part FOR VALUES IN ($_) USING zheap") for 1 .. 20;
ask($young, 'INSERT INTO part SELECT g % 20 + 1 FROM generate_series(1, 200) g');
is(one("SELECT tables FROM pg_stat_zheap_xacts WHERE pid = $young_pid"), '23', 'many tables, each once');
ask($young, 'COMMIT');
is(one("SELECT count(*) FROM pg_stat_zheap_xacts WHERE pid = $young_pid"), '0', 'gone with its end');

# --- holders of other kinds
one("BEGIN; UPDATE a SET v = 1 WHERE k = 1; PREPARE TRANSACTION 'forgotten'");
one($churn) for 1 .. 2;
first_holder("kind = 'prepared transaction' AND name = 'forgotten'", 200000, 'a prepared transaction');
one("COMMIT PREPARED 'forgotten'");

my $standby = zheap_standby($node, feedback => 1);
my $far = session($standby);
ask($far, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM a');
wait_for('SELECT backend_xmin IS NOT NULL FROM pg_stat_replication', 'feedback');
one($churn) for 1 .. 2;
first_holder("kind = 'standby feedback' AND backend_type = 'walsender'", 200000, 'a query of a standby');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_zheap_xacts'), '0', 'nobody writes on a standby');
ask($far, 'COMMIT');
finish_session($far);
$standby->stop;

one("SELECT pg_create_physical_replication_slot('slot')");
my $other = zheap_standby($node, name => 'other', feedback => 1, conf => "primary_slot_name = 'slot'\n");
my $there = session($other);
ask($there, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM a');
wait_for("SELECT xmin IS NOT NULL FROM pg_replication_slots WHERE slot_name = 'slot'", 'feedback to a slot');
# gone before it can say that its session has ended
$other->stop('immediate');
finish_session($there);
one($churn) for 1 .. 2;
first_holder("kind = 'replication slot' AND name = 'slot'", 200000, 'the slot of a standby that is gone');
$node->poll_query_until('postgres', "SELECT NOT active FROM pg_replication_slots");
one("SELECT pg_drop_replication_slot('slot')");
undo_quiet($node, 'without holders');

# --- how far is a rollback?
set_conf($node, 'zheap.rollback_paused' => 'on');
one('BEGIN; UPDATE b SET v = v + 1, t = upper(t); ROLLBACK');
wait_for("SELECT count(*) = 1 AND min(phase) = 'paused' AND bool_and(pid IS NULL AND datname = 'postgres' AND undo_bytes_total > 800000 AND undo_bytes_done = 0) FROM pg_stat_progress_zheap_rollback", 'a paused rollback');
one($churn) for 1 .. 2;
is(one("SELECT count(*) FROM pg_stat_zheap_undo_holders WHERE kind = 'pending rollback' AND held_bytes > 800000"), '1', 'it holds undo');
is(one("SELECT 'pending rollbacks' = ANY (kept_by) FROM pg_stat_zheap_undo_totals"), 't', 'and the last pass says so');

# a table lock keeps the worker out
my $locker = session($node);
ask($locker, 'BEGIN; LOCK TABLE b IN ACCESS EXCLUSIVE MODE');
set_conf($node, 'zheap.rollback_paused' => 'off');
wait_for("SELECT count(*) = 1 AND bool_and(phase = 'waiting for table lock' AND relid::regclass = 'b'::regclass AND pid IS NOT NULL) FROM pg_stat_progress_zheap_rollback", 'a rollback without its lock says so');
my $background = one('SELECT rollbacks_background FROM pg_stat_zheap_undo_totals');
ask($locker, 'COMMIT');
undo_quiet($node, 'after the lock');
is(one("SELECT count(*) FROM pg_stat_progress_zheap_rollback"), '0', 'no rollback is left');
wait_for("SELECT rollbacks_background > $background AND pages_rolled_back_background > 100 FROM pg_stat_zheap_undo_totals", 'it was counted');
like(slurp_file($node->logfile), qr/LOG:  rollback of transaction \d+ finished after \d+ ms: \d+ undo pages, \d+ visits to table pages, 0 failed attempts/, 'and logged');

# --- who has done it?
one('SELECT pg_zheap_reset_stats()');
one('SET zheap.rollback_foreground_size = 256; BEGIN; UPDATE a SET v = 9 WHERE k = 1; ROLLBACK');
is(one('SELECT rollbacks_foreground, pages_rolled_back_foreground, pages_rolled_back_by_visitors FROM pg_stat_zheap_undo_totals'), '1|1|0', 'the session itself');
set_conf($node, 'zheap.rollback_paused' => 'on');
one('BEGIN; UPDATE a SET v = 9 WHERE k = 1; ROLLBACK');
one('UPDATE a SET v = v + 1 WHERE k = 1');
is(one('SELECT rollbacks_foreground, pages_rolled_back_foreground, pages_rolled_back_by_visitors, pages_rolled_back_background FROM pg_stat_zheap_undo_totals'), '1|1|1|0', 'the next writer of the page');
set_conf($node, 'zheap.rollback_paused' => 'off');
undo_quiet($node, 'after visitors');

# --- counters against known work
one('SELECT pg_zheap_reset_stats()');
one('UPDATE b SET v = 0 WHERE k <= 300');
is(one('SELECT records FROM pg_stat_zheap_undo_totals'), '300', 'records that were written');
one($churn) for 1 .. 3;
undo_quiet($node, 'after work');
is(one('SELECT bytes_discarded BETWEEN bytes_written - 100000 AND bytes_written + 100000 AND discard_passes > 0 AND last_discard_pass > stats_reset FROM pg_stat_zheap_undo_totals'), 't', 'what was written was discarded');
my $totals = one('SELECT records, bytes_written, stats_reset FROM pg_stat_zheap_undo_totals');
$node->restart;
is(one('SELECT records, bytes_written, stats_reset FROM pg_stat_zheap_undo_totals'), $totals, 'counters survive a clean restart');
kill_server($node);
ok(start_after_kill($node), 'start after a crash');
is(one('SELECT records, stats_reset > ' . "'" . (split /\|/, $totals)[2] . "'" . ' FROM pg_stat_zheap_undo_totals'), '0|t', 'but not a crash');

# --- what the launcher does
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'undo launcher' AND state IN ('active', 'idle') AND query = 'discarding undo'}, 'the launcher says what it works on');

# --- what a vacuum tells
one('DELETE FROM a WHERE k > 4000');
my ($ret, $out, $err) = $node->psql('postgres', 'VACUUM (VERBOSE) a');
like($err, qr/removable cutoff: \d+\n.*buffer usage: [1-9]\d* hits, \d+ misses, \d+ dirtied\nWAL usage: [1-9]\d* records, \d+ full page images, [1-9]\d* bytes\nsystem usage: /s, 'figures of VACUUM (VERBOSE)');

# --- limits
one('CREATE ROLE poor; GRANT ALL ON b TO poor; ALTER ROLE poor SET zheap.transaction_undo_limit = 64');
($ret, $out, $err) = $node->psql('postgres', "SET SESSION AUTHORIZATION poor; SET ROLE poor; \\set VERBOSITY verbose\nSET zheap.transaction_undo_limit = -1;");
like($err, qr/42501: permission denied to set parameter "zheap.transaction_undo_limit"/, 'a role cannot raise its limit');
my $poor = session($node);
ask($poor, 'SET zheap.transaction_undo_limit = 64; SET ROLE poor');
is(ask($poor, 'UPDATE b SET v = 0 WHERE k <= 300; SELECT 1'), '1', 'a transaction below the limit');
like(ask($poor, 'UPDATE b SET v = v + 1, t = upper(t) WHERE k <= 4000'), qr/ERROR:  undo of the transaction exceeds zheap.transaction_undo_limit \(64 kB\)/, 'one beyond');
is(ask($poor, 'UPDATE b SET v = 1 WHERE k <= 300; SELECT 2'), '2', 'the next one is free again');
finish_session($poor);
set_conf($node, 'zheap.max_undo_size' => '1MB');
undo_quiet($node, 'before the warning');
my $holder = session($node);
ask($holder, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM a');
$node->psql('postgres', $churn) for 1 .. 6;
ok($node->wait_for_log(qr/WARNING:  undo takes \d+ kB of the 1024 kB that zheap.max_undo_size allows/), 'a warning at 80 %') if $node->can('wait_for_log');
ask($holder, 'COMMIT');

finish_session($_) for $old, $young, $locker, $holder;
check_tables($node, 'at the end');
$node->stop;
done_testing();
