# zheap.max_undo_size: writers beyond it fail with an error whose hint names
# who holds the undo, as pg_stat_zheap_undo_holders does; rollback is never
# refused; work goes on when the holder is gone or the limit is raised.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('limit', allows_streaming => 1, conf => q{
autovacuum = off
zheap.max_undo_size = 512kB
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION zheap_am;
CREATE TABLE d (k int PRIMARY KEY, c int, t text) USING zheap;
INSERT INTO d SELECT g, 0, repeat('t', 40) FROM generate_series(1, 2000) g;
CREATE TABLE small (a int) USING zheap;
INSERT INTO small VALUES (0);
});

# Many transactions, each far below the limit; the error that ends them.
sub churn
{
	my ($n) = @_;
	my ($ret, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n"
		  . "UPDATE d SET c = c + 1, t = repeat('u', 40);\n" x $n, on_error_stop => 1);
	return $err;
}

sub refused
{
	my ($err, $hint, $what) = @_;
	like($err, qr/ERROR:  53400: undo has reached the limit of 512 kB set by zheap.max_undo_size/, "$what: error");
	like($err, $hint, "$what: hint");
}

sub holders
{
	my ($where) = @_;
	return $node->safe_psql('postgres', "SELECT count(*) > 0 FROM pg_stat_zheap_undo_holders WHERE $where");
}

is(churn(15), '', 'many transactions without a holder: none is refused');

# --- a snapshot
my $digest = 'SELECT count(*), sum(c) FROM d';
my $old = session($node);
my $pid = ask($old, 'SELECT pg_backend_pid()');
my $rows = ask($old, "BEGIN ISOLATION LEVEL REPEATABLE READ; $digest");
$node->safe_psql('postgres', 'SELECT pg_current_xact_id()');
my $writer = session($node);
ask($writer, 'BEGIN; UPDATE small SET a = 1');
refused(churn(20), qr/HINT:  The oldest transaction that holds undo is that of process $pid\./, 'snapshot');
is(holders("kind = 'backend' AND pid = $pid AND state = 'idle in transaction'"), 't', 'and the view names it');
is(ask($old, $digest), $rows, 'the snapshot reads its rows');
cmp_ok($node->safe_psql('postgres', 'SELECT pg_zheap_undo_size()'), '<=', 600 * 1024, 'undo stays below the limit and a page for each log');
like(ask($writer, 'UPDATE d SET c = c + 1'), qr/undo has reached the limit/, 'a transaction that has written before');
is(ask($writer, 'ROLLBACK; SELECT a FROM small'), '0', 'and its rollback is not refused');
like(ask($writer, 'UPDATE d SET c = c + 1'), qr/undo has reached the limit/, 'an update');
is(ask($writer, 'CREATE TEMP TABLE mine (a int) USING zheap; INSERT INTO mine SELECT 1 FROM generate_series(1, 10); UPDATE mine SET a = 2; SELECT sum(a) FROM mine; DROP TABLE mine'), '20', 'temporary tables go on');
my ($now) = split /\|/, ask($writer, $digest);
is($now, '2000', 'reading goes on');
set_conf($node, 'zheap.max_undo_size' => '4MB');
is(churn(2), '', 'until the limit is raised');
set_conf($node, 'zheap.max_undo_size' => '512kB');
is(ask($old, $digest), $rows, 'the snapshot still reads its rows');
ask($old, 'COMMIT');
is(churn(5), '', 'or the snapshot is gone');

# --- a prepared transaction
$node->safe_psql('postgres', q{BEGIN; UPDATE small SET a = 2; PREPARE TRANSACTION 'left behind'});
refused(churn(20), qr/HINT:  Prepared transaction "left behind" holds the oldest undo\./, 'prepared transaction');
is(holders(q{kind = 'prepared transaction' AND name = 'left behind'}), 't', 'and the view names it');
$node->safe_psql('postgres', q{ROLLBACK PREPARED 'left behind'});
is(churn(5), '', 'work goes on when it is rolled back');
is($node->safe_psql('postgres', 'SELECT a FROM small'), '0', 'which it is');

# --- a rollback that does not come to its end
set_conf($node, 'zheap.rollback_paused' => 'on');
$node->safe_psql('postgres', 'SET zheap.rollback_foreground_size = 0; BEGIN; UPDATE d SET c = -1 WHERE k < 100; ROLLBACK');
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_zheap_undo_holders WHERE kind = 'pending rollback'});
# changes of these pages would roll them back: write elsewhere
my ($ret, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n"
	  . "INSERT INTO small SELECT 1 FROM generate_series(1, 500); DELETE FROM small WHERE a = 1;\n" x 60, on_error_stop => 1);
refused($err, qr/HINT:  The rollback of transaction \d+ is not finished\./, 'pending rollback');
is($node->safe_psql('postgres', q{SELECT pg_zheap_drain_undo('200 ms')}), 'f', 'drain does not end while rollback is paused');
set_conf($node, 'zheap.rollback_paused' => 'off');
is($node->safe_psql('postgres', 'SELECT pg_zheap_drain_undo()'), 't', 'but when it goes on');
is(churn(3), '', 'as does work');

# --- the writer itself
($ret, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nDO \$\$ BEGIN FOR i IN 1 .. 20 LOOP UPDATE d SET c = 0, t = repeat(chr(65 + i), 40); END LOOP; END \$\$");
refused($err, qr/HINT:  This transaction is the oldest one itself\. Split it/, 'a transaction larger than the limit');
is($node->safe_psql('postgres', 'SELECT min(c) > 0, max(length(t)) FROM d'), 't|40', 'all of it is undone');

# --- the replication slot of a standby that is gone
my $standby = zheap_standby($node, slot => 'gone', feedback => 1);
my $far = session($standby);
ask($far, "BEGIN ISOLATION LEVEL REPEATABLE READ; $digest");
ok($node->poll_query_until('postgres', 'SELECT xmin IS NOT NULL FROM pg_replication_slots'), 'feedback');
finish_session($far);
$standby->stop('immediate');
refused(churn(20), qr/HINT:  Replication slot "gone" holds the oldest undo\./, 'replication slot');
is(holders(q{kind = 'replication slot' AND name = 'gone'}), 't', 'and the view names it');
$node->poll_query_until('postgres', q{SELECT NOT active FROM pg_replication_slots});
$node->safe_psql('postgres', q{SELECT pg_drop_replication_slot('gone')});
is(churn(5), '', 'work goes on when it is dropped');

undo_quiet($node, 'at the end');
check_tables($node, 'at the end');
finish_session($_) for $old, $writer;
$node->stop;
log_is_clean($node, qr/WARNING:  undo takes \d+ kB of/);
done_testing();
