# zheap.max_snapshot_undo_size: a snapshot that keeps too much undo has to go,
# whether its session reads, waits or is idle, with 72000 or its end, and never
# with a wrong row.  What others keep anyway is no snapshot's fault.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use ZheapTest;

my $node = zheap_node('snapshotlimit', conf => q{
autovacuum = off
}, allows_streaming => 1);
$node->start;
sub one { my ($query) = @_; return $node->safe_psql('postgres', $query) }
sub wait_for { my ($query, $what) = @_; return ok($node->poll_query_until('postgres', $query), $what) }

one(q{
CREATE EXTENSION zheap_am;
CREATE TABLE a (k int PRIMARY KEY, v int) USING zheap;
CREATE TABLE b (k int PRIMARY KEY, v int, t text) USING zheap;
INSERT INTO a SELECT g, 0 FROM generate_series(1, 500) g;
INSERT INTO b SELECT g, 0, repeat('b', 50) FROM generate_series(1, 4000) g;
CREATE FUNCTION read_on(known bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	SET application_name = 'reader';
	LOOP
		IF (SELECT sum(v) FROM b) <> known THEN
			RAISE 'a wrong row';
		END IF;
	END LOOP;
END $$;
CREATE FUNCTION stubborn() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_sleep(10000);
	RETURN 1;
EXCEPTION WHEN others THEN
	RETURN (SELECT sum(v) FROM b);
END $$;
CREATE FUNCTION deaf() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	LOOP
		BEGIN
			PERFORM pg_sleep(10000);
		EXCEPTION WHEN others THEN
		END;
	END LOOP;
END $$;
});
my $churn = q{UPDATE b SET v = v + 1, t = repeat(chr(97 + v % 26), 50);};
is(one('SHOW zheap.max_snapshot_undo_size'), '-1', 'off unless it is asked for');

# A session with an old snapshot, and one that waits in vain for it to go.
sub reader
{
	my ($isolation) = @_;
	my $s = session($node);
	my $pid = ask($s, '\set VERBOSITY verbose' . "\nSELECT pg_backend_pid()");
	chomp $pid;
	is(ask($s, "BEGIN ISOLATION LEVEL $isolation; SELECT sum(v) FROM a"), one('SELECT sum(v) FROM a'), 'a reader');
	return ($s, $pid);
}

# at least n more passes are through
sub passes
{
	my ($n) = @_;
	my $now = one('SELECT discard_passes FROM pg_stat_zheap_undo_totals');
	return wait_for("SELECT discard_passes >= $now + $n FROM pg_stat_zheap_undo_totals", "$n passes");
}
# A restart, since nobody can see when the launcher has read the file anew.
sub no_limit
{
	$node->append_conf('postgresql.conf', "zheap.max_snapshot_undo_size = -1\n");
	$node->restart;
}
sub limit { return set_conf($node, 'zheap.max_snapshot_undo_size' => '1MB') }

my $too_old = qr/ERROR:  72000: snapshot too old\nDETAIL:  The snapshot keeps more undo than zheap.max_snapshot_undo_size allows/;

# --- one that reads
my ($s, $pid) = reader('REPEATABLE READ');
my $sum = ask($s, 'SELECT sum(v) FROM b');
one($churn) for 1 .. 8;
passes(3);
is(ask($s, 'SELECT sum(v) FROM b'), $sum, 'without a limit it goes on');
send_sql($s, "SELECT read_on($sum)");
wait_for("SELECT application_name = 'reader' FROM pg_stat_activity WHERE pid = $pid", 'it reads');
limit();
like(ask($s, 'SELECT 1'), $too_old, 'reading ends with 72000');
ask($s, 'ROLLBACK');
is(ask($s, 'SELECT sum(v) FROM b'), one('SELECT sum(v) FROM b'), 'with a new snapshot it reads on');
undo_quiet($node, 'the undo is gone');

# another reader runs a statement that sleeps, and then there is the limit
sub asleep
{
	my ($sql, $what) = @_;
	finish_session($s);
	no_limit();
	($s, $pid) = reader('REPEATABLE READ');
	one($churn) for 1 .. 8;
	send_sql($s, $sql);
	wait_for("SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $pid", $what);
	return limit();
}

# --- one that waits for something else
asleep('SELECT pg_sleep(10000)', 'it sleeps');
like(ask($s, 'SELECT 1'), $too_old, 'sleeping, too');
ask($s, 'ROLLBACK');
undo_quiet($node, 'after the sleeper');

# --- the handler of a function doesn't help, as the snapshot is still there
asleep('SELECT stubborn()', 'it sleeps in a function');
like(ask($s, 'SELECT 1'), $too_old, 'it must not read on');
ask($s, 'ROLLBACK');

# --- nor does one that goes on: it catches no cancelling
finish_session($s);
no_limit();
($s, $pid) = reader('REPEATABLE READ');
one($churn) for 1 .. 8;
send_sql($s, 'SELECT deaf()');
wait_for("SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = $pid", 'it sleeps in a loop');
limit();
like(ask($s, 'SELECT 1'), $too_old, 'it is cancelled');
ask($s, 'ROLLBACK');

# --- one that is idle, with a snapshot of its own or a cursor's
for my $how ('REPEATABLE READ', 'READ COMMITTED', 'SERIALIZABLE')
{
	finish_session($s);
	no_limit();
	($s, $pid) = reader($how);
	ask($s, 'DECLARE c CURSOR FOR SELECT * FROM b; FETCH 1 FROM c') if $how eq 'READ COMMITTED';
	ask($s, 'SET track_activities = off') if $how eq 'SERIALIZABLE';
	one($churn) for 1 .. 8;
	limit();
	wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid", "idle at $how: terminated");
	like(slurp_file($node->logfile), qr/LOG:  snapshot of process $pid keeps \d+ kB of undo, more than the 1024 kB.*LOG:  terminating process $pid, which is idle in a transaction/s, 'and the log says why');
	undo_quiet($node, 'after the idle one');
}
finish_session($s);

# --- what a standby kept that is gone
no_limit();
my $standby = zheap_standby($node, feedback => 1);
my $far = session($standby);
ask($far, 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM a');
wait_for('SELECT backend_xmin IS NOT NULL FROM pg_stat_replication', 'feedback');
$standby->stop('immediate');
finish_session($far);
wait_for('SELECT count(*) = 0 FROM pg_stat_replication', 'the standby is gone');
($s, $pid) = reader('REPEATABLE READ');
one($churn) for 1 .. 8;
limit();
wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid", 'it keeps nothing any more: the reader goes');
undo_quiet($node, 'after the standby');
finish_session($s);

# --- the fault of others
one("BEGIN; UPDATE a SET v = 1 WHERE k = 1; PREPARE TRANSACTION 'forgotten'");
($s, $pid) = reader('REPEATABLE READ');
$sum = ask($s, 'SELECT sum(v) FROM b');
one($churn) for 1 .. 8;
passes(30);
is(ask($s, 'SELECT sum(v) FROM b'), $sum, 'a prepared transaction keeps the undo: the reader stays');
ask($s, 'COMMIT');
one("COMMIT PREPARED 'forgotten'");
my $writer = session($node);
ask($writer, 'BEGIN ISOLATION LEVEL REPEATABLE READ; UPDATE a SET v = 2 WHERE k = 2');
ask($writer, $churn) for 1 .. 8;
passes(30);
is(ask($writer, 'SELECT count(*) FROM a WHERE v = 2; COMMIT'), '1', 'a writer keeps its own undo in any case');
undo_quiet($node, 'at the end');
finish_session($_) for $s, $writer;
check_tables($node, 'at the end');
log_is_clean($node);
$node->stop;
done_testing();
